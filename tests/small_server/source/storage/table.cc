#include "storage/table.h"

#include "core/text.h"

namespace small {

void Cell::set(const Value& value) {
    kind = value.kind;
    switch (value.kind) {
        case Kind::integer: integer = value.integer; break;
        case Kind::text: text.assign(value.text, value.length); break;
        case Kind::null: text.clear(); break;
    }
}

Value Cell::value() const {
    switch (kind) {
        case Kind::integer: return Value::of(integer);
        case Kind::text: return Value::of(std::string_view(text));
        case Kind::null: break;
    }
    return {};
}

Table::Table(std::string name, std::vector<Column> columns) : name_(std::move(name)), columns_(std::move(columns)) {
    if (columns_.empty() || columns_[0].kind != Kind::integer) {
        throw Error("the first column of " + name_ + " must be an INT: it is the key");
    }
}

Table::~Table() {
    for (BTree::Cursor at(index_, INT64_MIN); !at.at_end(); at.next()) delete at.row();
}

int Table::column(std::string_view name) const {
    for (size_t n = 0; n < columns_.size(); ++n) {
        if (same_text(columns_[n].name, name)) return static_cast<int>(n);
    }
    throw Error("table " + name_ + " has no column " + std::string(name));
}

void Table::insert(std::unique_ptr<Row> row) {
    if (!index_.insert(row->key(), row.get())) {
        throw Error("duplicate key " + std::to_string(row->key()) + " in table " + name_);
    }
    row.release();
}

bool Table::remove(int64_t key) {
    std::unique_ptr<Row> removed(index_.remove(key));
    return removed != nullptr;
}

}  // namespace small
