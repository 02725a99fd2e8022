#include "core/text.h"

namespace small {

namespace {

std::array<unsigned char, 256> make_folded() {
    std::array<unsigned char, 256> folded{};
    for (int n = 0; n < 256; ++n) folded[n] = static_cast<unsigned char>(n >= 'A' && n <= 'Z' ? n + 32 : n);
    return folded;
}

unsigned char fold(char letter) { return kFolded[static_cast<unsigned char>(letter)]; }

}  // namespace

const std::array<unsigned char, 256> kFolded = make_folded();

int compare_text(std::string_view left, std::string_view right) {
    size_t common = std::min(left.size(), right.size());
    for (size_t n = 0; n < common; ++n) {
        unsigned char a = fold(left[n]), b = fold(right[n]);
        if (a != b) return a < b ? -1 : 1;
    }
    if (left.size() == right.size()) return 0;
    return left.size() < right.size() ? -1 : 1;
}

bool same_text(std::string_view left, std::string_view right) {
    return left.size() == right.size() && compare_text(left, right) == 0;
}

bool matches_like(std::string_view text, std::string_view pattern) {
    size_t at = 0, wanted = 0, retry_at = 0, retry_wanted = std::string_view::npos;
    while (at < text.size()) {
        if (wanted < pattern.size() && pattern[wanted] == '%') {
            retry_wanted = ++wanted;
            retry_at = at;
        } else if (wanted < pattern.size() && (pattern[wanted] == '_' || fold(pattern[wanted]) == fold(text[at]))) {
            ++wanted;
            ++at;
        } else if (retry_wanted != std::string_view::npos) {
            wanted = retry_wanted;
            at = ++retry_at;
        } else {
            return false;
        }
    }
    while (wanted < pattern.size() && pattern[wanted] == '%') ++wanted;
    return wanted == pattern.size();
}

void append_integer(std::string& out, int64_t value) {
    char digits[24];
    char* end = digits + sizeof digits;
    char* at = end;
    uint64_t rest = value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
    do {
        *--at = static_cast<char>('0' + rest % 10);
        rest /= 10;
    } while (rest);
    if (value < 0) *--at = '-';
    out.append(at, static_cast<size_t>(end - at));
}

int64_t leading_integer(std::string_view text) {
    size_t at = 0;
    while (at < text.size() && text[at] == ' ') ++at;
    bool negative = at < text.size() && text[at] == '-';
    if (negative) ++at;
    uint64_t value = 0;
    for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
        if (value > (UINT64_MAX >> 1) / 10) throw Error("number out of range: " + std::string(text.substr(0, 40)));
        value = value * 10 + static_cast<uint64_t>(text[at] - '0');
    }
    return negative ? -static_cast<int64_t>(value) : static_cast<int64_t>(value);
}

void append_escaped(std::string& out, std::string_view text) {
    for (char letter : text) {
        switch (letter) {
            case '\t': out += "\\t"; break;
            case '\n': out += "\\n"; break;
            case '\\': out += "\\\\"; break;
            default: out += letter;
        }
    }
}

size_t format_thousands(char* out, int64_t value) {
    char reversed[27];
    size_t used = 0;
    int digits = 0;
    uint64_t rest = value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
    do {
        if (digits && digits % 3 == 0) reversed[used++] = ',';
        reversed[used++] = static_cast<char>('0' + rest % 10);
        rest /= 10;
        ++digits;
    } while (rest);
    if (value < 0) reversed[used++] = '-';
    std::reverse_copy(reversed, reversed + used, out);
    return used;
}

}  // namespace small
