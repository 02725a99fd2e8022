#include "sql/statement.h"

namespace small {

namespace {

// Calls ``visit(key, row)`` for each row that the condition keeps, by key, until it returns false.
template <typename Visit>
void for_each_match(const Statement& statement, Scope& scope, Visit visit) {
    const BTree& index = statement.table->index();
    const Expression* condition = statement.condition.get();
    KeyRange range;
    if (condition) condition->narrow(range);
    auto matches = [&](Row* row) {
        scope.row = row;
        return !condition || is_true(condition->evaluate(scope));
    };
    if (range.listed) {
        for (int64_t key : range.keys) {
            Row* row = index.find(key);
            if (row && matches(row) && !visit(row)) return;
        }
        return;
    }
    for (BTree::Cursor at(index, range.low); !at.at_end() && at.key() <= range.high; at.next()) {
        if (matches(at.row()) && !visit(at.row())) return;
    }
}

class Accumulator {
public:
    explicit Accumulator(Aggregate aggregate) : aggregate_(aggregate) {}

    void add(const Value& value) {
        if (value.kind == Kind::null) return;
        ++count_;
        switch (aggregate_) {
            case Aggregate::sum:
            case Aggregate::average:
                if (__builtin_add_overflow(sum_, as_integer(value), &sum_)) throw Error("the sum is out of range");
                break;
            case Aggregate::minimum:
                if (count_ == 1 || compare(value, best_) < 0) best_ = value;
                break;
            case Aggregate::maximum:
                if (count_ == 1 || compare(value, best_) > 0) best_ = value;
                break;
            default: break;
        }
    }
    Value result() const {
        if (aggregate_ == Aggregate::count) return Value::of(count_);
        if (count_ == 0) return {};
        if (aggregate_ == Aggregate::sum) return Value::of(sum_);
        if (aggregate_ == Aggregate::average) return Value::of(sum_ / count_);
        return best_;
    }

private:
    Aggregate aggregate_;
    int64_t count_ = 0;
    int64_t sum_ = 0;
    Value best_;
};

void append_row(const Statement& statement, Scope& scope, std::string& out) {
    bool first = true;
    for (const Output& output : statement.outputs) {
        if (!first) out += '\t';
        first = false;
        append(out, output.expression->evaluate(scope));
    }
    out += '\n';
}

int64_t select_aggregates(const Statement& statement, Scope& scope, std::string& out) {
    std::vector<Accumulator> accumulators;
    for (const Output& output : statement.outputs) {
        if (output.aggregate == Aggregate::none) throw Error("rows and aggregates cannot be selected together");
        accumulators.emplace_back(output.aggregate);
    }
    for_each_match(statement, scope, [&](Row*) {
        for (size_t n = 0; n < accumulators.size(); ++n) {
            accumulators[n].add(statement.outputs[n].expression->evaluate(scope));
        }
        return true;
    });
    for (size_t n = 0; n < accumulators.size(); ++n) {
        if (n) out += '\t';
        append(out, accumulators[n].result());
    }
    out += '\n';
    return 1;
}

int64_t select_sorted(const Statement& statement, Scope& scope, std::string& out) {
    std::vector<Row*> rows;
    for_each_match(statement, scope, [&](Row* row) {
        rows.push_back(row);
        return true;
    });
    auto column = static_cast<size_t>(statement.order_column);
    std::sort(rows.begin(), rows.end(), [&](const Row* left, const Row* right) {
        int order = compare(left->cells[column].value(), right->cells[column].value());
        if (order == 0) return left->key() < right->key();
        return statement.descending ? order > 0 : order < 0;
    });
    int64_t found = 0;
    for (Row* row : rows) {
        if (found == statement.limit) break;
        scope.row = row;
        append_row(statement, scope, out);
        ++found;
    }
    return found;
}

int64_t select(const Statement& statement, Scope& scope, std::string& out) {
    if (!statement.table) {
        append_row(statement, scope, out);
        return 1;
    }
    std::shared_lock lock(statement.table->mutex);
    if (statement.outputs[0].aggregate != Aggregate::none) return select_aggregates(statement, scope, out);
    if (statement.order_column >= 0) return select_sorted(statement, scope, out);
    int64_t found = 0;
    for_each_match(statement, scope, [&](Row*) {
        if (found == statement.limit) return false;
        append_row(statement, scope, out);
        ++found;
        return true;
    });
    return found;
}

Value as_column(const Column& column, Value value) {
    if (value.kind == Kind::null || value.kind == column.kind) return value;
    if (column.kind == Kind::integer) return Value::of(as_integer(value));
    throw Error("column " + column.name + " holds texts");
}

int64_t insert(const Statement& statement, Scope& scope) {
    Table& table = *statement.table;
    std::unique_lock lock(table.mutex);
    for (const auto& values : statement.rows) {
        auto row = std::make_unique<Row>(values.size());
        for (size_t n = 0; n < values.size(); ++n) {
            row->cells[n].set(as_column(table.columns()[n], values[n]->evaluate(scope)));
        }
        if (row->cells[0].kind != Kind::integer) throw Error("a key cannot be NULL");
        table.insert(std::move(row));
    }
    return static_cast<int64_t>(statement.rows.size());
}

int64_t update(const Statement& statement, Scope& scope) {
    Table& table = *statement.table;
    std::unique_lock lock(table.mutex);
    int64_t changed = 0;
    for_each_match(statement, scope, [&](Row* row) {
        for (const Assignment& assignment : statement.assignments) {
            auto column = static_cast<size_t>(assignment.column);
            Value value = as_column(table.columns()[column], assignment.value->evaluate(scope));
            // A text can lie in the very cell that takes it.
            if (value.kind == Kind::text) value = Value::of(scope.arena->copy(value.view()));
            row->cells[column].set(value);
        }
        ++changed;
        return true;
    });
    return changed;
}

int64_t remove(const Statement& statement, Scope& scope) {
    std::unique_lock lock(statement.table->mutex);
    std::vector<int64_t> keys;
    for_each_match(statement, scope, [&](Row* row) {
        keys.push_back(row->key());
        return true;
    });
    for (int64_t key : keys) statement.table->remove(key);
    return static_cast<int64_t>(keys.size());
}

}  // namespace

int64_t execute(const Statement& statement, Database& database, Arena& arena, std::string& out) {
    Scope scope;
    scope.arena = &arena;
    switch (statement.verb) {
        case Verb::select: return select(statement, scope, out);
        case Verb::insert: return insert(statement, scope);
        case Verb::update: return update(statement, scope);
        case Verb::remove: return remove(statement, scope);
        case Verb::create: database.create(statement.new_table, statement.new_columns); return 0;
        case Verb::drop: database.drop(statement.new_table); return 0;
    }
    return 0;
}

}  // namespace small
