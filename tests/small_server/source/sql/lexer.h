#pragma once

#include "core/prelude.h"

namespace small {

enum class Token : uint8_t { end, word, integer, text, symbol };

// Splits a statement into words, numbers, quoted texts and symbols.
class Lexer {
public:
    explicit Lexer(std::string_view statement) : rest_(statement) { advance(); }

    Token kind() const { return kind_; }
    // Of a quoted text: without the quotes, doubled quotes still doubled.
    std::string_view text() const { return text_; }
    int64_t number() const { return number_; }
    void advance();
    bool is_word(std::string_view word) const;
    bool is_symbol(std::string_view symbol) const { return kind_ == Token::symbol && text_ == symbol; }

private:
    void take_text();
    void take_number();
    void take_symbol();

    std::string_view rest_;
    std::string_view text_;
    int64_t number_ = 0;
    Token kind_ = Token::end;
};

}  // namespace small
