#include "admin/commands.h"
#include "sql/statement.h"

namespace small {

namespace {

void describe_range(const KeyRange& range, std::ostream& out) {
    if (range.listed) {
        out << "look up " << range.keys.size() << " keys\n";
    } else if (range.low == INT64_MIN && range.high == INT64_MAX) {
        out << "read the whole table\n";
    } else {
        out << "read keys ";
        range.low == INT64_MIN ? out << "from the first" : out << "from " << range.low;
        range.high == INT64_MAX ? out << " to the last" : out << " to " << range.high;
        out << '\n';
    }
}

}  // namespace

int64_t explain(std::string_view arguments, Database& database, Arena& arena, std::string& out) {
    Statement statement = parse(arguments, database, arena);
    std::ostringstream text;
    if (statement.table) {
        text << "table " << statement.table->name() << ", " << statement.table->index().size() << " rows\n";
        KeyRange range;
        if (statement.condition) statement.condition->narrow(range);
        describe_range(range, text);
    }
    if (statement.condition) {
        text << "keep rows where ";
        statement.condition->describe(text);
        text << '\n';
    }
    for (const Output& output : statement.outputs) {
        static constexpr const char* kNames[] = {"", "COUNT of ", "SUM of ", "MIN of ", "MAX of ", "AVG of "};
        text << "give " << kNames[static_cast<int>(output.aggregate)];
        output.expression->describe(text);
        text << '\n';
    }
    if (statement.order_column >= 0) text << "sort by column " << statement.order_column << '\n';
    std::string made = text.str();
    out += made;
    return static_cast<int64_t>(std::count(made.begin(), made.end(), '\n'));
}

}  // namespace small
