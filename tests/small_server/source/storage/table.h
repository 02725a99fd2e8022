// Tables: rows of cells, ordered by their first column.
#pragma once

#include "core/value.h"
#include "storage/btree.h"

namespace small {

// What a row owns of a value.
struct Cell {
    Kind kind = Kind::null;
    int64_t integer = 0;
    std::string text;

    void set(const Value& value);
    Value value() const;
};

struct Row {
    explicit Row(size_t columns) : cells(columns) {}
    int64_t key() const { return cells[0].integer; }
    std::vector<Cell> cells;
};

#ifdef SMALLSERVER_LEGACY_ROWS
// The layout of version 0, which only the converter still reads: fixed width, one text.
struct LegacyRow {
    int64_t key;
    int64_t number;
    char text[48];
};
#endif

struct Column {
    std::string name;
    Kind kind;
};

class Table {
public:
    Table(std::string name, std::vector<Column> columns);
    ~Table();

    const std::string& name() const { return name_; }
    const std::vector<Column>& columns() const { return columns_; }
    const BTree& index() const { return index_; }
    // The number of the column, or an Error that names it.
    int column(std::string_view name) const;
    // Takes a row; an Error when its key is there already.
    void insert(std::unique_ptr<Row> row);
    bool remove(int64_t key);

    // Held shared by readers and alone by writers of rows.
    mutable std::shared_mutex mutex;

private:
    std::string name_;
    std::vector<Column> columns_;
    BTree index_;
};

}  // namespace small
