#include "admin/commands.h"
#include "core/text.h"

namespace small {

namespace {

// One record of RFC 4180: fields between commas, quoted ones with doubled quotes. Nothing at the file's end.
std::optional<std::vector<std::string>> read_record(std::istream& in) {
    std::vector<std::string> fields(1);
    bool quoted = false, any = false;
    for (int letter; (letter = in.get()) != EOF;) {
        any = true;
        if (quoted) {
            if (letter != '"') {
                fields.back() += static_cast<char>(letter);
            } else if (in.peek() == '"') {
                fields.back() += static_cast<char>(in.get());
            } else {
                quoted = false;
            }
        } else if (letter == '"') {
            quoted = true;
        } else if (letter == ',') {
            fields.emplace_back();
        } else if (letter == '\n') {
            return fields;
        } else if (letter != '\r') {
            fields.back() += static_cast<char>(letter);
        }
    }
    if (quoted) throw Error("a quoted field is not closed");
    return any ? std::make_optional(fields) : std::nullopt;
}

void set(Cell& cell, const Column& column, const std::string& field) {
    if (field.empty()) return;
    cell.set(column.kind == Kind::integer ? Value::of(leading_integer(field)) : Value::of(std::string_view(field)));
}

}  // namespace

int64_t import_csv(std::string_view arguments, Database& database, Arena&, std::string& out) {
    Table& table = database.table(take_word(arguments));
    std::filesystem::path file(take_word(arguments));
    std::ifstream in(file);
    if (!in) throw Error("cannot read " + file.native());
    std::unique_lock lock(table.mutex);
    int64_t rows = 0, line = 0;
    while (auto record = read_record(in)) {
        ++line;
        if (record->size() != table.columns().size()) {
            throw Error("record " + std::to_string(line) + " has " + std::to_string(record->size()) + " fields");
        }
        if (line == 1 && same_text((*record)[0], table.columns()[0].name)) continue;
        auto row = std::make_unique<Row>(record->size());
        for (size_t n = 0; n < record->size(); ++n) set(row->cells[n], table.columns()[n], (*record)[n]);
        table.insert(std::move(row));
        ++rows;
    }
    out += "read " + std::to_string(line) + " records of " + file.filename().native() + "\n";
    return rows;
}

}  // namespace small
