// Memory for the texts that one statement makes; all of it is free again with the next statement.
#pragma once

#include "core/prelude.h"

namespace small {

class Arena {
public:
    char* allocate(size_t bytes);
    std::string_view copy(std::string_view text);
    void reset();

private:
    static constexpr size_t kBlockBytes = 64 * 1024;
    std::vector<std::unique_ptr<char[]>> blocks_;
    std::vector<std::unique_ptr<char[]>> large_;
    size_t block_ = 0;
    size_t used_ = kBlockBytes;
};

}  // namespace small
