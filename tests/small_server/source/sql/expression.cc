#include "sql/expression.h"

#include "core/text.h"

namespace small {

namespace {

Value truth(bool is) { return Value::of(static_cast<int64_t>(is)); }

class Constant final : public Expression {
public:
    explicit Constant(Value value) : value_(value) {}
    Value evaluate(Scope&) const override { return value_; }
    bool is_constant() const override { return true; }
    void describe(std::ostream& out) const override {
        std::string text;
        append(text, value_);
        if (value_.kind == Kind::text) {
            out << std::quoted(text, '\'');
        } else {
            out << text;
        }
    }

private:
    Value value_;
};

class ColumnOf final : public Expression {
public:
    ColumnOf(int column, std::string name) : column_(column), name_(std::move(name)) {}
    Value evaluate(Scope& scope) const override {
        if (!scope.row) throw Error("a column cannot stand here: " + name_);
        return scope.row->cells[static_cast<size_t>(column_)].value();
    }
    int column() const override { return column_; }
    void describe(std::ostream& out) const override { out << name_; }

private:
    int column_;
    std::string name_;
};

// An integer that is known before there is a row.
std::optional<int64_t> known_integer(const Expression& expression) {
    if (!expression.is_constant()) return std::nullopt;
    Scope nowhere;
    Value value = expression.evaluate(nowhere);
    if (value.kind != Kind::integer) return std::nullopt;
    return value.integer;
}

constexpr const char* kSigns[] = {"+", "-", "*", "/", "%", "=", "<>", "<", "<=", ">", ">="};

class Arithmetic final : public Expression {
public:
    Arithmetic(Operator op, ExpressionPtr left, ExpressionPtr right)
        : op_(op), left_(std::move(left)), right_(std::move(right)) {}

    Value evaluate(Scope& scope) const override {
        Value left = left_->evaluate(scope), right = right_->evaluate(scope);
        if (left.kind == Kind::null || right.kind == Kind::null) return {};
        int64_t a = as_integer(left), b = as_integer(right), result = 0;
        bool overflow = false;
        switch (op_) {
            case Operator::add: overflow = __builtin_add_overflow(a, b, &result); break;
            case Operator::subtract: overflow = __builtin_sub_overflow(a, b, &result); break;
            case Operator::multiply: overflow = __builtin_mul_overflow(a, b, &result); break;
            case Operator::divide:
                if (b == 0) return {};
                overflow = b == -1 && a == INT64_MIN;
                result = overflow ? 0 : a / b;
                break;
            case Operator::modulo:
                if (b == 0) return {};
                result = b == -1 ? 0 : a % b;
                break;
            default: throw Error("not an arithmetic operator");
        }
        if (overflow) throw Error("integer out of range");
        return Value::of(result);
    }
    void describe(std::ostream& out) const override {
        out << '(';
        left_->describe(out);
        out << ' ' << kSigns[static_cast<int>(op_)] << ' ';
        right_->describe(out);
        out << ')';
    }

private:
    Operator op_;
    ExpressionPtr left_, right_;
};

class Comparison final : public Expression {
public:
    Comparison(Operator op, ExpressionPtr left, ExpressionPtr right)
        : op_(op), left_(std::move(left)), right_(std::move(right)) {}

    Value evaluate(Scope& scope) const override {
        Value left = left_->evaluate(scope), right = right_->evaluate(scope);
        if (left.kind == Kind::null || right.kind == Kind::null) return {};
        int order = compare(left, right);
        switch (op_) {
            case Operator::equal: return truth(order == 0);
            case Operator::differ: return truth(order != 0);
            case Operator::below: return truth(order < 0);
            case Operator::at_most: return truth(order <= 0);
            case Operator::above: return truth(order > 0);
            case Operator::at_least: return truth(order >= 0);
            default: throw Error("not a comparison");
        }
    }
    void narrow(KeyRange& range) const override {
        std::optional<int64_t> key = left_->column() == 0 ? known_integer(*right_) : std::nullopt;
        if (!key) return;
        switch (op_) {
            case Operator::equal: range.low = std::max(range.low, *key); range.high = std::min(range.high, *key); break;
            case Operator::below:
            case Operator::at_most: range.high = std::min(range.high, *key); break;
            case Operator::above:
            case Operator::at_least: range.low = std::max(range.low, *key); break;
            default: break;
        }
    }
    void describe(std::ostream& out) const override {
        left_->describe(out);
        out << ' ' << kSigns[static_cast<int>(op_)] << ' ';
        right_->describe(out);
    }

private:
    Operator op_;
    ExpressionPtr left_, right_;
};

class Both final : public Expression {
public:
    Both(ExpressionPtr left, ExpressionPtr right) : left_(std::move(left)), right_(std::move(right)) {}
    Value evaluate(Scope& scope) const override {
        return truth(is_true(left_->evaluate(scope)) && is_true(right_->evaluate(scope)));
    }
    void narrow(KeyRange& range) const override {
        left_->narrow(range);
        right_->narrow(range);
    }
    void describe(std::ostream& out) const override {
        left_->describe(out);
        out << " AND ";
        right_->describe(out);
    }

private:
    ExpressionPtr left_, right_;
};

class Either final : public Expression {
public:
    Either(ExpressionPtr left, ExpressionPtr right) : left_(std::move(left)), right_(std::move(right)) {}
    Value evaluate(Scope& scope) const override {
        return truth(is_true(left_->evaluate(scope)) || is_true(right_->evaluate(scope)));
    }
    void describe(std::ostream& out) const override {
        out << '(';
        left_->describe(out);
        out << " OR ";
        right_->describe(out);
        out << ')';
    }

private:
    ExpressionPtr left_, right_;
};

class Not final : public Expression {
public:
    explicit Not(ExpressionPtr inner) : inner_(std::move(inner)) {}
    Value evaluate(Scope& scope) const override {
        Value inner = inner_->evaluate(scope);
        return inner.kind == Kind::null ? Value{} : truth(!is_true(inner));
    }
    void describe(std::ostream& out) const override {
        out << "NOT ";
        inner_->describe(out);
    }

private:
    ExpressionPtr inner_;
};

class In final : public Expression {
public:
    In(ExpressionPtr needle, std::vector<ExpressionPtr> list) : needle_(std::move(needle)), list_(std::move(list)) {}
    Value evaluate(Scope& scope) const override {
        Value needle = needle_->evaluate(scope);
        if (needle.kind == Kind::null) return {};
        for (const ExpressionPtr& item : list_) {
            Value value = item->evaluate(scope);
            if (value.kind != Kind::null && compare(needle, value) == 0) return truth(true);
        }
        return truth(false);
    }
    void narrow(KeyRange& range) const override {
        if (needle_->column() != 0 || range.listed) return;
        std::vector<int64_t> keys;
        for (const ExpressionPtr& item : list_) {
            std::optional<int64_t> key = known_integer(*item);
            if (!key) return;
            keys.push_back(*key);
        }
        std::sort(keys.begin(), keys.end());
        keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
        range.keys = std::move(keys);
        range.listed = true;
    }
    void describe(std::ostream& out) const override {
        needle_->describe(out);
        out << " IN (";
        for (size_t n = 0; n < list_.size(); ++n) {
            out << (n ? ", " : "");
            list_[n]->describe(out);
        }
        out << ')';
    }

private:
    ExpressionPtr needle_;
    std::vector<ExpressionPtr> list_;
};

class Between final : public Expression {
public:
    Between(ExpressionPtr needle, ExpressionPtr low, ExpressionPtr high)
        : needle_(std::move(needle)), low_(std::move(low)), high_(std::move(high)) {}
    Value evaluate(Scope& scope) const override {
        Value needle = needle_->evaluate(scope), low = low_->evaluate(scope), high = high_->evaluate(scope);
        if (needle.kind == Kind::null || low.kind == Kind::null || high.kind == Kind::null) return {};
        return truth(compare(needle, low) >= 0 && compare(needle, high) <= 0);
    }
    void narrow(KeyRange& range) const override {
        if (needle_->column() != 0) return;
        if (auto low = known_integer(*low_)) range.low = std::max(range.low, *low);
        if (auto high = known_integer(*high_)) range.high = std::min(range.high, *high);
    }
    void describe(std::ostream& out) const override {
        needle_->describe(out);
        out << " BETWEEN ";
        low_->describe(out);
        out << " AND ";
        high_->describe(out);
    }

private:
    ExpressionPtr needle_, low_, high_;
};

class Like final : public Expression {
public:
    Like(ExpressionPtr text, ExpressionPtr pattern) : text_(std::move(text)), pattern_(std::move(pattern)) {}
    Value evaluate(Scope& scope) const override {
        Value text = text_->evaluate(scope), pattern = pattern_->evaluate(scope);
        if (text.kind != Kind::text || pattern.kind != Kind::text) return {};
        return truth(matches_like(text.view(), pattern.view()));
    }
    void describe(std::ostream& out) const override {
        text_->describe(out);
        out << " LIKE ";
        pattern_->describe(out);
    }

private:
    ExpressionPtr text_, pattern_;
};

class IsNull final : public Expression {
public:
    explicit IsNull(ExpressionPtr inner) : inner_(std::move(inner)) {}
    Value evaluate(Scope& scope) const override { return truth(inner_->evaluate(scope).kind == Kind::null); }
    void describe(std::ostream& out) const override {
        inner_->describe(out);
        out << " IS NULL";
    }

private:
    ExpressionPtr inner_;
};

class Call final : public Expression {
public:
    Call(std::string name, Function function, std::vector<ExpressionPtr> arguments)
        : name_(std::move(name)), function_(function), arguments_(std::move(arguments)) {}
    Value evaluate(Scope& scope) const override {
        Value values[4];
        for (size_t n = 0; n < arguments_.size(); ++n) values[n] = arguments_[n]->evaluate(scope);
        return function_(values, arguments_.size(), scope);
    }
    void describe(std::ostream& out) const override {
        out << name_ << '(';
        for (size_t n = 0; n < arguments_.size(); ++n) {
            out << (n ? ", " : "");
            arguments_[n]->describe(out);
        }
        out << ')';
    }

private:
    std::string name_;
    Function function_;
    std::vector<ExpressionPtr> arguments_;
};

}  // namespace

ExpressionPtr make_constant(Value value) { return std::make_unique<Constant>(value); }
ExpressionPtr make_column(int column, std::string name) { return std::make_unique<ColumnOf>(column, std::move(name)); }
ExpressionPtr make_binary(Operator op, ExpressionPtr left, ExpressionPtr right) {
    if (op < Operator::equal) return std::make_unique<Arithmetic>(op, std::move(left), std::move(right));
    return std::make_unique<Comparison>(op, std::move(left), std::move(right));
}
ExpressionPtr make_and(ExpressionPtr left, ExpressionPtr right) {
    return std::make_unique<Both>(std::move(left), std::move(right));
}
ExpressionPtr make_or(ExpressionPtr left, ExpressionPtr right) {
    return std::make_unique<Either>(std::move(left), std::move(right));
}
ExpressionPtr make_not(ExpressionPtr inner) { return std::make_unique<Not>(std::move(inner)); }
ExpressionPtr make_in(ExpressionPtr needle, std::vector<ExpressionPtr> list) {
    return std::make_unique<In>(std::move(needle), std::move(list));
}
ExpressionPtr make_between(ExpressionPtr needle, ExpressionPtr low, ExpressionPtr high) {
    return std::make_unique<Between>(std::move(needle), std::move(low), std::move(high));
}
ExpressionPtr make_like(ExpressionPtr text, ExpressionPtr pattern) {
    return std::make_unique<Like>(std::move(text), std::move(pattern));
}
ExpressionPtr make_is_null(ExpressionPtr inner) { return std::make_unique<IsNull>(std::move(inner)); }
ExpressionPtr make_call(std::string name, Function function, std::vector<ExpressionPtr> arguments) {
    return std::make_unique<Call>(std::move(name), function, std::move(arguments));
}

}  // namespace small
