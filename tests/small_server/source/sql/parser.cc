// Recursive descent over the statement's tokens.
#include "core/text.h"
#include "sql/lexer.h"
#include "sql/statement.h"

namespace small {

namespace {

class Parser {
public:
    Parser(std::string_view text, const Database& database, Arena& arena)
        : lexer_(text), database_(database), arena_(arena), text_(text) {}

    Statement statement() {
        Statement made;
        if (accept("SELECT")) {
            select(made);
        } else if (accept("INSERT")) {
            insert(made);
        } else if (accept("UPDATE")) {
            update(made);
        } else if (accept("DELETE")) {
            made.verb = Verb::remove;
            expect("FROM");
            made.table = table_ = &database_.table(word());
            condition(made);
        } else if (accept("CREATE")) {
            create(made);
        } else if (accept("DROP")) {
            made.verb = Verb::drop;
            expect("TABLE");
            made.new_table = word();
        } else {
            fail("a statement");
        }
        accept_symbol(";");
        if (lexer_.kind() != Token::end) fail("the end");
        return made;
    }

private:
    void select(Statement& made) {
        made.verb = Verb::select;
        // The columns can only be looked up in the table, which comes after them.
        Lexer columns = lexer_;
        while (lexer_.kind() != Token::end && !lexer_.is_word("FROM")) lexer_.advance();
        if (accept("FROM")) made.table = table_ = &database_.table(word());
        Lexer after = lexer_;
        lexer_ = columns;
        do {
            outputs(made);
        } while (accept_symbol(","));
        if (table_ ? !lexer_.is_word("FROM") : lexer_.kind() != Token::end) fail("FROM or a comma");
        lexer_ = after;
        if (!table_) return;
        condition(made);
        if (accept("ORDER")) {
            expect("BY");
            made.order_column = table_->column(word());
            made.descending = accept("DESC");
        }
        if (accept("LIMIT")) made.limit = number();
    }

    void outputs(Statement& made) {
        if (lexer_.is_symbol("*")) {
            if (!table_) fail("an expression");
            lexer_.advance();
            int n = 0;
            for (const Column& column : table_->columns()) made.outputs.push_back({make_column(n++, column.name)});
            return;
        }
        static constexpr std::pair<std::string_view, Aggregate> kAggregates[] = {
            {"COUNT", Aggregate::count},   {"SUM", Aggregate::sum},     {"MIN", Aggregate::minimum},
            {"MAX", Aggregate::maximum},   {"AVG", Aggregate::average},
        };
        for (const auto& [name, aggregate] : kAggregates) {
            if (!lexer_.is_word(name)) continue;
            lexer_.advance();
            expect_symbol("(");
            ExpressionPtr inner = accept_symbol("*") ? make_constant(Value::of(int64_t{1})) : expression();
            expect_symbol(")");
            made.outputs.push_back({std::move(inner), aggregate});
            return;
        }
        made.outputs.push_back({expression()});
    }

    void insert(Statement& made) {
        made.verb = Verb::insert;
        expect("INTO");
        made.table = &database_.table(word());
        expect("VALUES");
        do {
            expect_symbol("(");
            std::vector<ExpressionPtr> row;
            do {
                row.push_back(expression());
            } while (accept_symbol(","));
            expect_symbol(")");
            if (row.size() != made.table->columns().size()) throw Error("the number of values does not match the columns");
            made.rows.push_back(std::move(row));
        } while (accept_symbol(","));
    }

    void update(Statement& made) {
        made.verb = Verb::update;
        made.table = table_ = &database_.table(word());
        expect("SET");
        do {
            int column = table_->column(word());
            if (column == 0) throw Error("the key of a row cannot be changed");
            expect_symbol("=");
            made.assignments.push_back({column, expression()});
        } while (accept_symbol(","));
        condition(made);
    }

    void create(Statement& made) {
        made.verb = Verb::create;
        expect("TABLE");
        made.new_table = word();
        expect_symbol("(");
        do {
            std::string name(word());
            std::string_view type = word();
            if (!same_text(type, "INT") && !same_text(type, "TEXT")) throw Error("a column is INT or TEXT");
            made.new_columns.push_back({name, same_text(type, "INT") ? Kind::integer : Kind::text});
        } while (accept_symbol(","));
        expect_symbol(")");
    }

    void condition(Statement& made) {
        if (accept("WHERE")) made.condition = expression();
    }

    ExpressionPtr expression() {
        ExpressionPtr left = conjunction();
        while (accept("OR")) left = make_or(std::move(left), conjunction());
        return left;
    }

    ExpressionPtr conjunction() {
        ExpressionPtr left = negation();
        while (accept("AND")) left = make_and(std::move(left), negation());
        return left;
    }

    ExpressionPtr negation() { return accept("NOT") ? make_not(negation()) : predicate(); }

    ExpressionPtr predicate() {
        ExpressionPtr left = sum();
        static constexpr std::pair<std::string_view, Operator> kComparisons[] = {
            {"=", Operator::equal},    {"<>", Operator::differ}, {"!=", Operator::differ}, {"<=", Operator::at_most},
            {">=", Operator::at_least}, {"<", Operator::below},   {">", Operator::above},
        };
        if (lexer_.kind() == Token::symbol) {
            for (const auto& [sign, op] : kComparisons) {
                if (accept_symbol(sign)) return make_binary(op, std::move(left), sum());
            }
            return left;
        }
        if (lexer_.kind() != Token::word) return left;
        if (accept("BETWEEN")) {
            ExpressionPtr low = sum();
            expect("AND");
            return make_between(std::move(left), std::move(low), sum());
        }
        if (accept("IN")) {
            std::vector<ExpressionPtr> list;
            expect_symbol("(");
            do {
                list.push_back(sum());
            } while (accept_symbol(","));
            expect_symbol(")");
            return make_in(std::move(left), std::move(list));
        }
        if (accept("LIKE")) return make_like(std::move(left), sum());
        if (accept("IS")) {
            bool negated = accept("NOT");
            expect("NULL");
            ExpressionPtr is = make_is_null(std::move(left));
            return negated ? make_not(std::move(is)) : std::move(is);
        }
        return left;
    }

    ExpressionPtr sum() {
        ExpressionPtr left = product();
        for (;;) {
            if (accept_symbol("+")) {
                left = make_binary(Operator::add, std::move(left), product());
            } else if (accept_symbol("-")) {
                left = make_binary(Operator::subtract, std::move(left), product());
            } else {
                return left;
            }
        }
    }

    ExpressionPtr product() {
        ExpressionPtr left = primary();
        for (;;) {
            if (accept_symbol("*")) {
                left = make_binary(Operator::multiply, std::move(left), primary());
            } else if (accept_symbol("/")) {
                left = make_binary(Operator::divide, std::move(left), primary());
            } else if (accept_symbol("%")) {
                left = make_binary(Operator::modulo, std::move(left), primary());
            } else {
                return left;
            }
        }
    }

    ExpressionPtr primary() {
        if (++depth_ > 200) throw Error("the expression is nested too deeply");
        ExpressionPtr made = primary_inner();
        --depth_;
        return made;
    }

    ExpressionPtr primary_inner() {
        switch (lexer_.kind()) {
            case Token::integer: return make_constant(Value::of(number()));
            case Token::text: return make_constant(Value::of(quoted()));
            case Token::symbol:
                if (accept_symbol("(")) {
                    ExpressionPtr inner = expression();
                    expect_symbol(")");
                    return inner;
                }
                if (accept_symbol("-")) {
                    if (lexer_.kind() == Token::integer) return make_constant(Value::of(-number()));
                    return make_binary(Operator::subtract, make_constant(Value::of(int64_t{0})), primary());
                }
                break;
            case Token::word: return named();
            case Token::end: break;
        }
        fail("an expression");
    }

    ExpressionPtr named() {
        std::string_view name = word();
        if (!accept_symbol("(")) {
            if (same_text(name, "NULL")) return make_constant(Value());
            if (!table_) throw Error("there is no column " + std::string(name) + " here");
            return make_column(table_->column(name), std::string(name));
        }
        std::vector<ExpressionPtr> arguments;
        if (!accept_symbol(")")) {
            do {
                arguments.push_back(expression());
            } while (accept_symbol(","));
            expect_symbol(")");
        }
        Function function = find_function(name, arguments.size());
        return make_call(std::string(name), function, std::move(arguments));
    }

    bool accept(std::string_view word) {
        if (!lexer_.is_word(word)) return false;
        lexer_.advance();
        return true;
    }
    bool accept_symbol(std::string_view symbol) {
        if (!lexer_.is_symbol(symbol)) return false;
        lexer_.advance();
        return true;
    }
    void expect(std::string_view word) {
        if (!accept(word)) fail(word);
    }
    void expect_symbol(std::string_view symbol) {
        if (!accept_symbol(symbol)) fail(symbol);
    }
    std::string_view word() {
        if (lexer_.kind() != Token::word) fail("a name");
        std::string_view name = lexer_.text();
        lexer_.advance();
        return name;
    }
    int64_t number() {
        if (lexer_.kind() != Token::integer) fail("a number");
        int64_t value = lexer_.number();
        lexer_.advance();
        return value;
    }
    std::string_view quoted() {
        std::string_view text = lexer_.text();
        lexer_.advance();
        if (text.find('\'') == std::string_view::npos) return text;
        char* out = arena_.allocate(text.size());
        size_t used = 0;
        for (size_t n = 0; n < text.size(); ++n) {
            out[used++] = text[n];
            if (text[n] == '\'') ++n;
        }
        return {out, used};
    }
    [[noreturn]] void fail(std::string_view wanted) {
        std::ostringstream message;
        message << "expected " << wanted << " near " << std::quoted(std::string(lexer_.text().substr(0, 30))) << " at byte "
                << (lexer_.text().data() ? lexer_.text().data() - text_.data() : static_cast<ptrdiff_t>(text_.size()));
        throw Error(message.str());
    }

    Lexer lexer_;
    const Database& database_;
    Arena& arena_;
    std::string_view text_;
    Table* table_ = nullptr;
    int depth_ = 0;
};

}  // namespace

Statement parse(std::string_view text, const Database& database, Arena& arena) {
    return Parser(text, database, arena).statement();
}

}  // namespace small
