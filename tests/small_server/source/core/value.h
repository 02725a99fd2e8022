// A value of an expression: null, an integer or a text that lies in a row or in the statement's arena.
#pragma once

#include "core/prelude.h"

namespace small {

enum class Kind : uint8_t { null, integer, text };

struct Value {
    Kind kind = Kind::null;
    uint32_t length = 0;
    union {
        int64_t integer = 0;
        const char* text;
    };

    static Value of(int64_t number) {
        Value made;
        made.kind = Kind::integer;
        made.integer = number;
        return made;
    }
    static Value of(std::string_view view) {
        Value made;
        made.kind = Kind::text;
        made.length = static_cast<uint32_t>(view.size());
        made.text = view.data();
        return made;
    }
    std::string_view view() const { return {text, length}; }
};

// SQL's order: null first; a text beside an integer counts as the number that it begins with.
int compare(const Value& left, const Value& right);
int64_t as_integer(const Value& value);
bool is_true(const Value& value);
void append(std::string& out, const Value& value);

}  // namespace small
