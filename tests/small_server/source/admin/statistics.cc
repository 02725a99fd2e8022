#include "admin/commands.h"

#include <set>

namespace small {

namespace {

constexpr size_t kBuckets = 8;

void numbers(const std::string& name, std::vector<int64_t> values, std::ostream& out) {
    std::sort(values.begin(), values.end());
    double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
    size_t distinct = static_cast<size_t>(std::distance(values.begin(), std::unique(values.begin(), values.end())));
    out << name << '\t' << distinct << " distinct\t" << std::fixed << std::setprecision(1) << mean << " mean\tlimits";
    for (size_t n = 0; n <= kBuckets; ++n) out << ' ' << values[std::min(distinct - 1, n * distinct / kBuckets)];
    out << '\n';
}

void texts(const std::string& name, const std::vector<std::string>& values, std::ostream& out) {
    std::set<std::string> distinct(values.begin(), values.end());
    std::map<size_t, size_t> lengths;
    for (const std::string& value : values) ++lengths[value.size()];
    auto commonest = std::max_element(lengths.begin(), lengths.end(), [](auto& a, auto& b) { return a.second < b.second; });
    out << name << '\t' << distinct.size() << " distinct\tcommonest length " << commonest->first << '\n';
}

}  // namespace

int64_t statistics(std::string_view arguments, Database& database, Arena&, std::string& out) {
    const Table& table = database.table(take_word(arguments));
    std::shared_lock lock(table.mutex);
    std::ostringstream text;
    for (size_t n = 0; n < table.columns().size(); ++n) {
        std::vector<int64_t> integers;
        std::vector<std::string> strings;
        for (BTree::Cursor at(table.index(), INT64_MIN); !at.at_end(); at.next()) {
            const Cell& cell = at.row()->cells[n];
            if (cell.kind == Kind::integer) integers.push_back(cell.integer);
            if (cell.kind == Kind::text) strings.push_back(cell.text);
        }
        if (!integers.empty()) numbers(table.columns()[n].name, std::move(integers), text);
        if (!strings.empty()) texts(table.columns()[n].name, strings, text);
    }
    out += text.str();
    return static_cast<int64_t>(table.columns().size());
}

}  // namespace small
