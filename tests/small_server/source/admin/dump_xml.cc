#include "admin/commands.h"

namespace small {

namespace {

class Writer {
public:
    explicit Writer(std::ostream& out) : out_(out) {}

    void open(const std::string& name, const std::map<std::string, std::string>& attributes = {}) {
        out_ << std::string(open_.size() * 2, ' ') << '<' << name;
        for (const auto& [key, value] : attributes) out_ << ' ' << key << "=\"" << escaped(value) << '"';
        out_ << ">\n";
        open_.push_back(name);
    }
    void close() {
        std::string name = std::move(open_.back());
        open_.pop_back();
        out_ << std::string(open_.size() * 2, ' ') << "</" << name << ">\n";
    }
    void leaf(const std::string& name, const std::optional<std::string>& text) {
        out_ << std::string(open_.size() * 2, ' ') << '<' << name;
        text ? out_ << '>' << escaped(*text) << "</" << name << ">\n" : out_ << "/>\n";
    }

private:
    static std::string escaped(const std::string& text) {
        static const std::unordered_map<char, std::string> kEntities = {
            {'<', "&lt;"}, {'>', "&gt;"}, {'&', "&amp;"}, {'"', "&quot;"}, {'\'', "&apos;"}, {'\n', "&#10;"},
        };
        std::string made;
        for (char letter : text) {
            auto found = kEntities.find(letter);
            found == kEntities.end() ? made += letter : made += found->second;
        }
        return made;
    }
    std::ostream& out_;
    std::vector<std::string> open_;
};

std::optional<std::string> text_of(const Cell& cell) {
    if (cell.kind == Kind::null) return std::nullopt;
    return cell.kind == Kind::integer ? std::to_string(cell.integer) : cell.text;
}

}  // namespace

int64_t dump_xml(std::string_view arguments, Database& database, Arena&, std::string& out) {
    const Table& table = database.table(take_word(arguments));
    std::shared_lock lock(table.mutex);
    std::ostringstream text;
    Writer writer(text);
    writer.open("table", {{"name", table.name()}, {"rows", std::to_string(table.index().size())}});
    int64_t rows = 0;
    for (BTree::Cursor at(table.index(), INT64_MIN); !at.at_end(); at.next(), ++rows) {
        writer.open("row");
        for (size_t n = 0; n < table.columns().size(); ++n) {
            writer.leaf(table.columns()[n].name, text_of(at.row()->cells[n]));
        }
        writer.close();
    }
    writer.close();
    out += text.str();
    return rows;
}

}  // namespace small
