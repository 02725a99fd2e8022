// Expressions: a tree of nodes that evaluate themselves against a row.
#pragma once

#include "core/arena.h"
#include "core/value.h"
#include "storage/table.h"

namespace small {

// What an expression is evaluated with.
struct Scope {
    const Row* row = nullptr;
    Arena* arena = nullptr;
};

// The keys that a condition leaves possible.
struct KeyRange {
    int64_t low = INT64_MIN;
    int64_t high = INT64_MAX;
    // Sorted; holds the only possible keys when ``listed``.
    std::vector<int64_t> keys;
    bool listed = false;
};

class Expression {
public:
    virtual ~Expression() = default;
    virtual Value evaluate(Scope& scope) const = 0;
    // Narrows the keys that can make this true.
    virtual void narrow(KeyRange&) const {}
    // The column's number, or -1 for anything that is not just a column.
    virtual int column() const { return -1; }
    virtual bool is_constant() const { return false; }
    // For people.
    virtual void describe(std::ostream& out) const = 0;
};

using ExpressionPtr = std::unique_ptr<Expression>;
using Function = Value (*)(const Value* arguments, size_t count, Scope& scope);

// A scalar function by its name with the arguments that it takes, or an Error.
Function find_function(std::string_view name, size_t arguments);

enum class Operator : uint8_t { add, subtract, multiply, divide, modulo, equal, differ, below, at_most, above, at_least };

ExpressionPtr make_constant(Value value);
ExpressionPtr make_column(int column, std::string name);
ExpressionPtr make_binary(Operator op, ExpressionPtr left, ExpressionPtr right);
ExpressionPtr make_and(ExpressionPtr left, ExpressionPtr right);
ExpressionPtr make_or(ExpressionPtr left, ExpressionPtr right);
ExpressionPtr make_not(ExpressionPtr inner);
ExpressionPtr make_in(ExpressionPtr needle, std::vector<ExpressionPtr> list);
ExpressionPtr make_between(ExpressionPtr needle, ExpressionPtr low, ExpressionPtr high);
ExpressionPtr make_like(ExpressionPtr text, ExpressionPtr pattern);
ExpressionPtr make_is_null(ExpressionPtr inner);
ExpressionPtr make_call(std::string name, Function function, std::vector<ExpressionPtr> arguments);

}  // namespace small
