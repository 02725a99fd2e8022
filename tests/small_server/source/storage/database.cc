#include "storage/database.h"

namespace small {

Table& Database::create(std::string name, std::vector<Column> columns) {
    std::unique_lock lock(mutex_);
    if (tables_.count(name)) throw Error("there is a table " + name + " already");
    auto made = std::make_unique<Table>(name, std::move(columns));
    return *(tables_[std::move(name)] = std::move(made));
}

void Database::drop(std::string_view name) {
    std::unique_lock lock(mutex_);
    auto found = tables_.find(name);
    if (found == tables_.end()) throw Error("there is no table " + std::string(name));
    dropped_.push_back(std::move(found->second));
    tables_.erase(found);
}

Table& Database::table(std::string_view name) const {
    std::shared_lock lock(mutex_);
    auto found = tables_.find(name);
    if (found == tables_.end()) throw Error("there is no table " + std::string(name));
    return *found->second;
}

std::vector<const Table*> Database::tables() const {
    std::shared_lock lock(mutex_);
    std::vector<const Table*> all;
    for (const auto& [name, table] : tables_) all.push_back(table.get());
    return all;
}

size_t Database::rows() const {
    size_t total = 0;
    for (const Table* table : tables()) total += table->index().size();
    return total;
}

}  // namespace small
