// The scalar functions of SQL expressions.
#include "core/checksum.h"
#include "core/text.h"
#include "sql/expression.h"

namespace small {

namespace {

std::string_view text_of(const Value& value, Scope& scope) {
    if (value.kind == Kind::text) return value.view();
    std::string made;
    append(made, value);
    return scope.arena->copy(made);
}

template <typename Change>
Value changed(const Value& value, Scope& scope, Change change) {
    std::string_view text = text_of(value, scope);
    char* out = scope.arena->allocate(text.size());
    for (size_t n = 0; n < text.size(); ++n) out[n] = change(text[n]);
    return Value::of(std::string_view(out, text.size()));
}

Value upper(const Value* a, size_t, Scope& scope) {
    return changed(a[0], scope, [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
}

Value lower(const Value* a, size_t, Scope& scope) {
    return changed(a[0], scope, [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
}

Value rotate(const Value* a, size_t, Scope& scope) {
    return changed(a[0], scope, [](char c) {
        if (c >= '0' && c <= '9') return static_cast<char>('0' + (c - '0' + 5) % 10);
        if (c >= 'a' && c <= 'z') return static_cast<char>('a' + (c - 'a' + 13) % 26);
        if (c >= 'A' && c <= 'Z') return static_cast<char>('A' + (c - 'A' + 13) % 26);
        return c;
    });
}

Value reverse(const Value* a, size_t, Scope& scope) {
    std::string_view text = text_of(a[0], scope);
    char* out = scope.arena->allocate(text.size());
    std::reverse_copy(text.begin(), text.end(), out);
    return Value::of(std::string_view(out, text.size()));
}

Value length(const Value* a, size_t, Scope& scope) {
    if (a[0].kind == Kind::null) return {};
    return Value::of(static_cast<int64_t>(text_of(a[0], scope).size()));
}

Value absolute(const Value* a, size_t, Scope&) {
    if (a[0].kind == Kind::null) return {};
    int64_t value = as_integer(a[0]);
    if (value == INT64_MIN) throw Error("integer out of range");
    return Value::of(value < 0 ? -value : value);
}

Value crc(const Value* a, size_t, Scope& scope) {
    return Value::of(static_cast<int64_t>(crc32(text_of(a[0], scope))));
}

Value concat(const Value* a, size_t count, Scope& scope) {
    std::string_view parts[4];
    size_t total = 0;
    for (size_t n = 0; n < count; ++n) {
        if (a[n].kind == Kind::null) return {};
        parts[n] = text_of(a[n], scope);
        total += parts[n].size();
    }
    char* out = scope.arena->allocate(total);
    size_t used = 0;
    for (size_t n = 0; n < count; ++n) {
        for (char c : parts[n]) out[used++] = c;
    }
    return Value::of(std::string_view(out, total));
}

Value substring(const Value* a, size_t, Scope& scope) {
    std::string_view text = text_of(a[0], scope);
    int64_t from = as_integer(a[1]), size = as_integer(a[2]);
    if (from < 1 || size < 1 || static_cast<uint64_t>(from) > text.size()) return Value::of(std::string_view());
    return Value::of(text.substr(static_cast<size_t>(from - 1), static_cast<size_t>(size)));
}

Value thousands(const Value* a, size_t, Scope& scope) {
    if (a[0].kind == Kind::null) return {};
    char* out = scope.arena->allocate(27);
    return Value::of(std::string_view(out, format_thousands(out, as_integer(a[0]))));
}

// How many of its characters are digits.
Value digits(const Value* a, size_t, Scope& scope) {
    int64_t found = 0;
    for (char c : text_of(a[0], scope)) {
        if (c >= '0' && c <= '9') ++found;
    }
    return Value::of(found);
}

Value choose(const Value* a, size_t, Scope&) { return is_true(a[0]) ? a[1] : a[2]; }

struct Entry {
    std::string_view name;
    size_t least, most;
    Function function;
};

constexpr Entry kFunctions[] = {
    {"upper", 1, 1, upper},   {"lower", 1, 1, lower},    {"rotate", 1, 1, rotate},    {"reverse", 1, 1, reverse},
    {"length", 1, 1, length}, {"abs", 1, 1, absolute},   {"crc32", 1, 1, crc},        {"concat", 1, 4, concat},
    {"substr", 3, 3, substring}, {"format", 1, 1, thousands}, {"digits", 1, 1, digits}, {"if", 3, 3, choose},
};

}  // namespace

Function find_function(std::string_view name, size_t arguments) {
    for (const Entry& entry : kFunctions) {
        if (!same_text(entry.name, name)) continue;
        if (arguments < entry.least || arguments > entry.most) {
            throw Error("function " + std::string(name) + " does not take " + std::to_string(arguments) + " arguments");
        }
        return entry.function;
    }
    throw Error("there is no function " + std::string(name));
}

}  // namespace small
