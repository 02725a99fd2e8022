#include "admin/commands.h"

namespace small {

namespace {

struct Finding {
    std::string what;
    std::variant<int64_t, double, std::string> value;
    bool healthy = true;
};

void check_order(const Table& table, std::vector<Finding>& findings) {
    int64_t disorder = 0, mismatched = 0;
    std::optional<int64_t> before;
    for (BTree::Cursor at(table.index(), INT64_MIN); !at.at_end(); at.next()) {
        if (before && *before >= at.key()) ++disorder;
        if (at.row()->key() != at.key()) ++mismatched;
        before = at.key();
    }
    findings.push_back({table.name() + ": keys out of order", disorder, disorder == 0});
    findings.push_back({table.name() + ": keys beside their rows", mismatched, mismatched == 0});
    findings.push_back({table.name() + ": height of the index", int64_t{table.index().height()}});
}

void read_memory(std::vector<Finding>& findings) {
    std::ifstream in("/proc/self/status");
    for (std::string line; std::getline(in, line);) {
        size_t end = line.find(':');
        std::string name = line.substr(0, end);
        if (name != "VmRSS" && name != "VmPeak" && name != "Threads") continue;
        findings.push_back({name, static_cast<int64_t>(std::stoll(line.substr(end + 1)))});
    }
}

}  // namespace

int64_t diagnose(std::string_view, Database& database, Arena&, std::string& out) {
    std::vector<Finding> findings;
    for (const Table* table : database.tables()) {
        std::shared_lock lock(table->mutex);
        check_order(*table, findings);
    }
    read_memory(findings);
    double failed = static_cast<double>(database.failed) / std::max<double>(1, static_cast<double>(database.queries));
    findings.push_back({"share of statements that failed", failed, failed < 0.01});
    std::ostringstream text;
    for (const Finding& finding : findings) {
        text << std::left << std::setw(48) << finding.what << (finding.healthy ? "  " : "! ");
        std::visit([&](const auto& value) { text << std::setprecision(3) << value; }, finding.value);
        text << '\n';
    }
    out += text.str();
    return static_cast<int64_t>(findings.size());
}

}  // namespace small
