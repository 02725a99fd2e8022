#include "core/arena.h"

namespace small {

char* Arena::allocate(size_t bytes) {
    if (bytes > kBlockBytes / 4) {
        large_.push_back(std::make_unique<char[]>(bytes));
        return large_.back().get();
    }
    if (used_ + bytes > kBlockBytes) {
        if (used_ != kBlockBytes || !blocks_.empty()) ++block_;
        if (block_ >= blocks_.size()) {
            blocks_.push_back(std::make_unique<char[]>(kBlockBytes));
            block_ = blocks_.size() - 1;
        }
        used_ = 0;
    }
    char* found = blocks_[block_].get() + used_;
    used_ += bytes;
    return found;
}

std::string_view Arena::copy(std::string_view text) {
    char* copied = allocate(text.size());
    std::memcpy(copied, text.data(), text.size());
    return {copied, text.size()};
}

void Arena::reset() {
    large_.clear();
    block_ = 0;
    used_ = blocks_.empty() ? kBlockBytes : 0;
}

}  // namespace small
