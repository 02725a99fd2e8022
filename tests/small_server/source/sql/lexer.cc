#include "sql/lexer.h"

#include "core/text.h"

namespace small {

namespace {

enum Class : unsigned char { other, space, letter, digit, quote };

std::array<Class, 256> classify() {
    std::array<Class, 256> classes{};
    for (int n = 0; n < 256; ++n) {
        bool is_letter = (n >= 'a' && n <= 'z') || (n >= 'A' && n <= 'Z') || n == '_';
        bool is_space = n == ' ' || n == '\t' || n == '\r' || n == '\n';
        classes[n] = is_letter ? letter : n >= '0' && n <= '9' ? digit : is_space ? space : n == '\'' ? quote : other;
    }
    return classes;
}

const std::array<Class, 256> kClasses = classify();

Class class_of(char c) { return kClasses[static_cast<unsigned char>(c)]; }

}  // namespace

void Lexer::advance() {
    size_t skipped = 0;
    while (skipped < rest_.size() && class_of(rest_[skipped]) == space) ++skipped;
    rest_.remove_prefix(skipped);
    if (rest_.empty()) {
        kind_ = Token::end;
        text_ = {};
        return;
    }
    switch (class_of(rest_[0])) {
        case letter: {
            size_t size = 1;
            while (size < rest_.size() && (class_of(rest_[size]) == letter || class_of(rest_[size]) == digit)) ++size;
            kind_ = Token::word;
            text_ = rest_.substr(0, size);
            rest_.remove_prefix(size);
            return;
        }
        case digit: take_number(); return;
        case quote: take_text(); return;
        default: take_symbol();
    }
}

bool Lexer::is_word(std::string_view word) const { return kind_ == Token::word && same_text(text_, word); }

void Lexer::take_number() {
    size_t size = 0;
    uint64_t value = 0;
    while (size < rest_.size() && class_of(rest_[size]) == digit) {
        if (value > (UINT64_MAX >> 1) / 10) throw Error("number out of range");
        value = value * 10 + static_cast<uint64_t>(rest_[size++] - '0');
    }
    kind_ = Token::integer;
    number_ = static_cast<int64_t>(value);
    text_ = rest_.substr(0, size);
    rest_.remove_prefix(size);
}

void Lexer::take_text() {
    size_t at = 1;
    for (;; ++at) {
        if (at >= rest_.size()) throw Error("a text is not closed");
        if (rest_[at] != '\'') continue;
        if (at + 1 >= rest_.size() || rest_[at + 1] != '\'') break;
        ++at;
    }
    kind_ = Token::text;
    text_ = rest_.substr(1, at - 1);
    rest_.remove_prefix(at + 1);
}

void Lexer::take_symbol() {
    size_t size = 1;
    if (rest_.size() > 1) {
        std::string_view two = rest_.substr(0, 2);
        if (two == "<=" || two == ">=" || two == "<>" || two == "!=" || two == "||") size = 2;
    }
    static constexpr std::string_view kKnown = "()<>=!+-*/%,.;|";
    if (kKnown.find(rest_[0]) == std::string_view::npos) throw Error(std::string("unknown character ") + rest_[0]);
    kind_ = Token::symbol;
    text_ = rest_.substr(0, size);
    rest_.remove_prefix(size);
}

}  // namespace small
