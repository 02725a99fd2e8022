// What an operator asks for. None of it runs under load.
#pragma once

#include "core/arena.h"
#include "storage/database.h"

namespace small {

extern std::filesystem::path plugin_folder;

// Runs the command on ``line``; the number of rows that it told of. Raises Error.
int64_t run_admin(std::string_view line, Database& database, Arena& arena, std::string& out);

// One word after another of a command's arguments.
std::string_view take_word(std::string_view& arguments);

int64_t explain(std::string_view arguments, Database& database, Arena& arena, std::string& out);
int64_t dump_csv(std::string_view arguments, Database& database, Arena& arena, std::string& out);
int64_t dump_json(std::string_view arguments, Database& database, Arena& arena, std::string& out);
int64_t dump_xml(std::string_view arguments, Database& database, Arena& arena, std::string& out);
int64_t import_csv(std::string_view arguments, Database& database, Arena& arena, std::string& out);
int64_t extra(std::string_view arguments, Database& database, Arena& arena, std::string& out);
int64_t grep(std::string_view arguments, Database& database, Arena& arena, std::string& out);
int64_t diagnose(std::string_view arguments, Database& database, Arena& arena, std::string& out);
int64_t statistics(std::string_view arguments, Database& database, Arena& arena, std::string& out);
int64_t legacy_rows(std::string_view arguments, Database& database, Arena& arena, std::string& out);

}  // namespace small
