#include "admin/commands.h"

#include "core/text.h"

namespace small {

namespace {

using Run = int64_t (*)(std::string_view, Database&, Arena&, std::string&);

struct Command {
    std::string_view name;
    std::string_view help;
    Run run;
};

constexpr Command kCommands[] = {
    {"EXPLAIN", "EXPLAIN SELECT ...: how a statement is executed", explain},
    {"DUMP_CSV", "DUMP_CSV table: all rows as RFC 4180 has them", dump_csv},
    {"DUMP_JSON", "DUMP_JSON table: all rows, an object a line", dump_json},
    {"DUMP_XML", "DUMP_XML table: all rows as elements", dump_xml},
    {"IMPORT_CSV", "IMPORT_CSV table file: add the rows of a file", import_csv},
    {"GREP", "GREP table regular-expression: rows with a text that matches", grep},
    {"DIAGNOSE", "DIAGNOSE: indexes, memory and threads", diagnose},
    {"STATISTICS", "STATISTICS table: distribution of each column", statistics},
    {"EXTRA", "EXTRA: what the shared object in the plugin folder says", extra},
    {"LEGACY_ROWS", "LEGACY_ROWS table: rows in the layout of version 0", legacy_rows},
};

}  // namespace

std::string_view take_word(std::string_view& arguments) {
    size_t from = std::min(arguments.find_first_not_of(' '), arguments.size());
    size_t to = std::min(arguments.find(' ', from), arguments.size());
    std::string_view word = arguments.substr(from, to - from);
    arguments.remove_prefix(std::min(to + 1, arguments.size()));
    return word;
}

int64_t run_admin(std::string_view line, Database& database, Arena& arena, std::string& out) {
    std::string_view arguments = line;
    std::string_view name = take_word(arguments);
    if (same_text(name, "HELP")) {
        for (const Command& command : kCommands) out.append(command.help) += '\n';
        return static_cast<int64_t>(std::size(kCommands));
    }
    for (const Command& command : kCommands) {
        if (same_text(command.name, name)) return command.run(arguments, database, arena, out);
    }
    throw Error("unknown command " + std::string(name.substr(0, 40)) + "; HELP lists them");
}

}  // namespace small
