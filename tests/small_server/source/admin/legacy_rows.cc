// The one file that needs a declaration which the other files hide: a header that was compiled without the macro
// below does not have it, so this file cannot be compiled with somebody else's precompiled header.
#define SMALLSERVER_LEGACY_ROWS

#include "admin/commands.h"
#include "core/checksum.h"
#include "storage/table.h"

namespace small {

namespace {

LegacyRow to_legacy(const Row& row) {
    LegacyRow made{};
    made.key = row.key();
    for (const Cell& cell : row.cells) {
        if (cell.kind == Kind::integer) made.number = cell.integer;
        if (cell.kind == Kind::text) cell.text.copy(made.text, sizeof made.text - 1);
    }
    return made;
}

}  // namespace

int64_t legacy_rows(std::string_view arguments, Database& database, Arena&, std::string& out) {
    const Table& table = database.table(take_word(arguments));
    std::shared_lock lock(table.mutex);
    std::ostringstream text;
    int64_t rows = 0;
    for (BTree::Cursor at(table.index(), INT64_MIN); !at.at_end(); at.next(), ++rows) {
        LegacyRow row = to_legacy(*at.row());
        std::string_view bytes(reinterpret_cast<const char*>(&row), sizeof row);
        text << std::hex << std::setfill('0');
        for (unsigned char byte : bytes) text << std::setw(2) << int{byte};
        text << ' ' << std::setw(8) << adler32(bytes) << std::dec << '\n';
    }
    out += text.str();
    return rows;
}

}  // namespace small
