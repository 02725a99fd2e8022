#include "admin/commands.h"

namespace small {

namespace {

void put(std::ostream& out, const std::string& text) {
    out << '"';
    for (unsigned char letter : text) {
        switch (letter) {
            case '"': out << "\\\""; break;
            case '\\': out << "\\\\"; break;
            case '\b': out << "\\b"; break;
            case '\f': out << "\\f"; break;
            case '\n': out << "\\n"; break;
            case '\r': out << "\\r"; break;
            case '\t': out << "\\t"; break;
            default:
                if (letter < 0x20) {
                    out << "\\u" << std::hex << std::setw(4) << std::setfill('0') << int{letter} << std::dec;
                } else {
                    out << letter;
                }
        }
    }
    out << '"';
}

void put(std::ostream& out, const Cell& cell) {
    switch (cell.kind) {
        case Kind::null: out << "null"; break;
        case Kind::integer: out << cell.integer; break;
        case Kind::text: put(out, cell.text); break;
    }
}

}  // namespace

int64_t dump_json(std::string_view arguments, Database& database, Arena&, std::string& out) {
    const Table& table = database.table(take_word(arguments));
    std::shared_lock lock(table.mutex);
    std::ostringstream text;
    int64_t rows = 0;
    for (BTree::Cursor at(table.index(), INT64_MIN); !at.at_end(); at.next(), ++rows) {
        text << '{';
        for (size_t n = 0; n < table.columns().size(); ++n) {
            if (n) text << ", ";
            put(text, table.columns()[n].name);
            text << ": ";
            put(text, at.row()->cells[n]);
        }
        text << "}\n";
    }
    out += text.str();
    return rows;
}

}  // namespace small
