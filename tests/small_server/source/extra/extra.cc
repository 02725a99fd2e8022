#include "extra/extra.h"

const char* small_extra() {
    return "nothing more";
}
