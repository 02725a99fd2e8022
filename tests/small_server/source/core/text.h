// Texts: comparing without case, matching patterns, numbers in and out.
#pragma once

#include "core/prelude.h"

namespace small {

extern const std::array<unsigned char, 256> kFolded;

// Below, equal or above zero, without regard to the case of ASCII letters.
int compare_text(std::string_view left, std::string_view right);
bool same_text(std::string_view left, std::string_view right);
// SQL's LIKE: % for any run of characters, _ for one.
bool matches_like(std::string_view text, std::string_view pattern);
void append_integer(std::string& out, int64_t value);
// The number at the beginning of a text, 0 without one.
int64_t leading_integer(std::string_view text);
// With a backslash before tab, line end and backslash.
void append_escaped(std::string& out, std::string_view text);
// 1234567 as 1,234,567 into 27 bytes; the number of bytes used.
size_t format_thousands(char* out, int64_t value);

}  // namespace small
