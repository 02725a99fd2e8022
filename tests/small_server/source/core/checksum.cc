#include "core/checksum.h"

namespace small {

namespace {

std::array<uint32_t, 256> make_table() {
    std::array<uint32_t, 256> table{};
    for (uint32_t n = 0; n < 256; ++n) {
        uint32_t value = n;
        for (int bit = 0; bit < 8; ++bit) value = value & 1 ? 0xEDB88320u ^ (value >> 1) : value >> 1;
        table[n] = value;
    }
    return table;
}

const std::array<uint32_t, 256> kTable = make_table();

}  // namespace

uint32_t crc32(std::string_view bytes) {
    uint32_t value = 0xFFFFFFFFu;
    for (unsigned char byte : bytes) value = kTable[(value ^ byte) & 0xFF] ^ (value >> 8);
    return value ^ 0xFFFFFFFFu;
}

uint32_t adler32(std::string_view bytes) {
    uint32_t low = 1, high = 0;
    for (unsigned char byte : bytes) {
        low = (low + byte) % 65521;
        high = (high + low) % 65521;
    }
    return high << 16 | low;
}

}  // namespace small
