#include "admin/commands.h"

namespace small {

namespace {

void put(std::string& out, const std::string& text) {
    if (text.find_first_of(",\"\r\n") == std::string::npos) {
        out += text;
        return;
    }
    out += '"';
    for (char letter : text) {
        if (letter == '"') out += '"';
        out += letter == '\n' ? ' ' : letter;
    }
    out += '"';
}

}  // namespace

int64_t dump_csv(std::string_view arguments, Database& database, Arena&, std::string& out) {
    const Table& table = database.table(take_word(arguments));
    std::shared_lock lock(table.mutex);
    bool first = true;
    for (const Column& column : table.columns()) {
        if (!std::exchange(first, false)) out += ',';
        put(out, column.name);
    }
    out += '\n';
    int64_t rows = 0;
    for (BTree::Cursor at(table.index(), INT64_MIN); !at.at_end(); at.next(), ++rows) {
        first = true;
        for (const Cell& cell : at.row()->cells) {
            if (!std::exchange(first, false)) out += ',';
            if (cell.kind == Kind::integer) out += std::to_string(cell.integer);
            if (cell.kind == Kind::text) put(out, cell.text);
        }
        out += '\n';
    }
    return rows;
}

}  // namespace small
