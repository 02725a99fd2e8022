#pragma once

#include "core/prelude.h"

namespace small {

// CRC-32 with the polynomial of Ethernet and zlib.
uint32_t crc32(std::string_view bytes);
// Adler-32 of RFC 1950.
uint32_t adler32(std::string_view bytes);

}  // namespace small
