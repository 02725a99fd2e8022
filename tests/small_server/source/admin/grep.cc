#include "admin/commands.h"

#include <regex>

namespace small {

int64_t grep(std::string_view arguments, Database& database, Arena&, std::string& out) {
    const Table& table = database.table(take_word(arguments));
    std::regex wanted;
    try {
        wanted.assign(std::string(arguments), std::regex::ECMAScript | std::regex::icase | std::regex::optimize);
    } catch (const std::regex_error& error) {
        throw Error(std::string("not a regular expression: ") + error.what());
    }
    std::shared_lock lock(table.mutex);
    int64_t found = 0;
    for (BTree::Cursor at(table.index(), INT64_MIN); !at.at_end(); at.next()) {
        for (const Cell& cell : at.row()->cells) {
            std::smatch match;
            if (cell.kind != Kind::text || !std::regex_search(cell.text, match, wanted)) continue;
            out += std::to_string(at.key()) + '\t' + match.prefix().str() + '[' + match.str() + ']' + match.suffix().str() + '\n';
            ++found;
        }
    }
    return found;
}

}  // namespace small
