// The tables on disk: one file, written at a clean stop and read at the start, with a checksum for each table.
#include "core/checksum.h"
#include "core/text.h"
#include "storage/database.h"

namespace small {

namespace {

constexpr char kMagic[] = "smallserver 1";

std::filesystem::path file_in(const std::filesystem::path& folder) { return folder / "tables.dat"; }

void put_number(std::string& out, int64_t value) { out.append(reinterpret_cast<const char*>(&value), sizeof value); }

void put_text(std::string& out, std::string_view text) {
    put_number(out, static_cast<int64_t>(text.size()));
    out += text;
}

class Reader {
public:
    explicit Reader(std::string_view bytes) : bytes_(bytes) {}

    int64_t number() {
        int64_t value;
        std::memcpy(&value, take(sizeof value).data(), sizeof value);
        return value;
    }
    std::string_view text() { return take(static_cast<size_t>(number())); }
    bool at_end() const { return bytes_.empty(); }

private:
    std::string_view take(size_t size) {
        if (size > bytes_.size()) throw Error("the data file ends too early");
        std::string_view taken = bytes_.substr(0, size);
        bytes_.remove_prefix(size);
        return taken;
    }
    std::string_view bytes_;
};

std::string encode(const Table& table) {
    std::string out;
    put_text(out, table.name());
    put_number(out, static_cast<int64_t>(table.columns().size()));
    for (const Column& column : table.columns()) {
        put_text(out, column.name);
        put_number(out, static_cast<int64_t>(column.kind));
    }
    put_number(out, static_cast<int64_t>(table.index().size()));
    for (BTree::Cursor at(table.index(), INT64_MIN); !at.at_end(); at.next()) {
        for (const Cell& cell : at.row()->cells) {
            put_number(out, static_cast<int64_t>(cell.kind));
            if (cell.kind == Kind::integer) put_number(out, cell.integer);
            if (cell.kind == Kind::text) put_text(out, cell.text);
        }
    }
    return out;
}

void decode(Database& database, std::string_view bytes) {
    Reader in(bytes);
    std::string name(in.text());
    std::vector<Column> columns(static_cast<size_t>(in.number()));
    for (Column& column : columns) {
        column.name = in.text();
        column.kind = static_cast<Kind>(in.number());
    }
    Table& table = database.create(name, columns);
    for (int64_t rows = in.number(); rows > 0; --rows) {
        auto row = std::make_unique<Row>(columns.size());
        for (Cell& cell : row->cells) {
            cell.kind = static_cast<Kind>(in.number());
            if (cell.kind == Kind::integer) cell.integer = in.number();
            if (cell.kind == Kind::text) cell.text = in.text();
        }
        table.insert(std::move(row));
    }
}

}  // namespace

void initialise_folder(const std::filesystem::path& folder) {
    if (std::filesystem::exists(file_in(folder))) throw Error(folder.string() + " is initialised already");
    std::filesystem::create_directories(folder);
    save_snapshot(Database(), folder);
}

void save_snapshot(const Database& database, const std::filesystem::path& folder) {
    auto partial = folder / "tables.partial";
    {
        std::ofstream out(partial, std::ios::binary | std::ios::trunc);
        std::string head;
        put_text(head, kMagic);
        out << head;
        for (const Table* table : database.tables()) {
            std::shared_lock lock(table->mutex);
            std::string body = encode(*table), framed;
            put_number(framed, static_cast<int64_t>(adler32(body)));
            put_text(framed, body);
            out << framed;
        }
        if (!out.flush()) throw Error("cannot write " + partial.string());
    }
    std::filesystem::rename(partial, file_in(folder));
}

void load_snapshot(Database& database, const std::filesystem::path& folder) {
    std::ifstream in(file_in(folder), std::ios::binary);
    if (!in) throw Error(folder.string() + " is no data folder: make one with --initialize");
    std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    Reader reader(bytes);
    if (reader.text() != kMagic) throw Error(file_in(folder).string() + " is of another version");
    while (!reader.at_end()) {
        int64_t sum = reader.number();
        std::string_view body = reader.text();
        if (sum != static_cast<int64_t>(adler32(body))) throw Error(file_in(folder).string() + " is damaged");
        decode(database, body);
    }
}

}  // namespace small
