// A parsed statement, ready to run.
#pragma once

#include "sql/expression.h"
#include "storage/database.h"

namespace small {

enum class Verb : uint8_t { select, insert, update, remove, create, drop };
enum class Aggregate : uint8_t { none, count, sum, minimum, maximum, average };

struct Output {
    ExpressionPtr expression;
    Aggregate aggregate = Aggregate::none;
};

struct Assignment {
    int column;
    ExpressionPtr value;
};

struct Statement {
    Verb verb = Verb::select;
    Table* table = nullptr;
    std::vector<Output> outputs;
    std::vector<std::vector<ExpressionPtr>> rows;
    std::vector<Assignment> assignments;
    ExpressionPtr condition;
    int order_column = -1;
    bool descending = false;
    int64_t limit = INT64_MAX;
    std::string new_table;
    std::vector<Column> new_columns;
};

// Raises Error. Texts of the statement stay where they are, or lie in the arena.
Statement parse(std::string_view text, const Database& database, Arena& arena);
// Appends a line a row to ``out``; the number of rows that were found or changed.
int64_t execute(const Statement& statement, Database& database, Arena& arena, std::string& out);

}  // namespace small
