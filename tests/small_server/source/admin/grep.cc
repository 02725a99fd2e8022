#include "admin/commands.h"

#include <regex.h>

namespace small {

namespace {

class Regex {
   public:
    explicit Regex(const std::string& text) {
        int failure = regcomp(&compiled_, text.c_str(), REG_EXTENDED | REG_ICASE);
        if (failure == 0) return;
        std::array<char, 128> message;
        regerror(failure, &compiled_, message.data(), message.size());
        throw Error(std::string("not a regular expression: ") + message.data());
    }
    ~Regex() { regfree(&compiled_); }
    Regex(const Regex&) = delete;
    Regex& operator=(const Regex&) = delete;

    std::optional<regmatch_t> search(const std::string& text) const {
        regmatch_t match;
        if (regexec(&compiled_, text.c_str(), 1, &match, 0) != 0) return std::nullopt;
        return match;
    }

   private:
    regex_t compiled_;
};

}  // namespace

int64_t grep(std::string_view arguments, Database& database, Arena&, std::string& out) {
    const Table& table = database.table(take_word(arguments));
    Regex wanted{std::string(arguments)};
    std::shared_lock lock(table.mutex);
    int64_t found = 0;
    for (BTree::Cursor at(table.index(), INT64_MIN); !at.at_end(); at.next()) {
        for (const Cell& cell : at.row()->cells) {
            if (cell.kind != Kind::text) continue;
            std::string text(cell.text);
            std::optional<regmatch_t> match = wanted.search(text);
            if (!match) continue;
            size_t from = static_cast<size_t>(match->rm_so), to = static_cast<size_t>(match->rm_eo);
            out += std::to_string(at.key()) + '\t' + text.substr(0, from) + '[' + text.substr(from, to - from) + ']' +
                   text.substr(to) + '\n';
            ++found;
        }
    }
    return found;
}

}  // namespace small
