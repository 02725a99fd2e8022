#include "core/value.h"

#include "core/text.h"

namespace small {

int compare(const Value& left, const Value& right) {
    if (left.kind == Kind::null || right.kind == Kind::null) {
        return static_cast<int>(left.kind != Kind::null) - static_cast<int>(right.kind != Kind::null);
    }
    if (left.kind == Kind::text && right.kind == Kind::text) return compare_text(left.view(), right.view());
    int64_t a = as_integer(left), b = as_integer(right);
    return a < b ? -1 : a > b;
}

int64_t as_integer(const Value& value) {
    switch (value.kind) {
        case Kind::integer: return value.integer;
        case Kind::text: return leading_integer(value.view());
        case Kind::null: break;
    }
    return 0;
}

bool is_true(const Value& value) { return value.kind != Kind::null && as_integer(value) != 0; }

void append(std::string& out, const Value& value) {
    switch (value.kind) {
        case Kind::null: out += "NULL"; break;
        case Kind::integer: append_integer(out, value.integer); break;
        case Kind::text: append_escaped(out, value.view()); break;
    }
}

}  // namespace small
