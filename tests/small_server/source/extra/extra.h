#pragma once

// What the server asks the shared object that it loads.
extern "C" const char* small_extra();
