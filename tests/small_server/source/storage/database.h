#pragma once

#include "storage/table.h"

namespace small {

// All tables by name, and what the server counts.
class Database {
public:
    Table& create(std::string name, std::vector<Column> columns);
    void drop(std::string_view name);
    // The table, or an Error that names it.
    Table& table(std::string_view name) const;
    std::vector<const Table*> tables() const;
    size_t rows() const;

    std::atomic<uint64_t> queries{0};
    std::atomic<uint64_t> failed{0};

private:
    mutable std::shared_mutex mutex_;
    std::map<std::string, std::unique_ptr<Table>, std::less<>> tables_;
    // Kept to the end: a statement of another connection may still read one.
    std::vector<std::unique_ptr<Table>> dropped_;
};

// Reads and writes all tables of a data folder. Errors name the file.
void load_snapshot(Database& database, const std::filesystem::path& folder);
void save_snapshot(const Database& database, const std::filesystem::path& folder);
void initialise_folder(const std::filesystem::path& folder);

}  // namespace small
