// smallserver: tables in memory, SQL-like statements on a unix socket, a snapshot at a clean stop.
#include "admin/commands.h"
#include "net/listener.h"

#ifndef SMALLSERVER_VERSION
#define SMALLSERVER_VERSION "unknown"
#endif

namespace {

struct Options {
    std::filesystem::path data;
    small::ListenOptions listen;
    bool initialise = false;
    bool version = false;
};

constexpr char kUsage[] =
    "smallserver --data DIR --initialize\n"
    "smallserver --data DIR --socket PATH [--max-connections N | --threads-free] [--plugin-dir DIR]\n"
    "smallserver --version\n";

Options read_options(int count, char** arguments) {
    Options options;
    for (int n = 1; n < count; ++n) {
        std::string_view name = arguments[n], value;
        bool attached = name.find('=') != std::string_view::npos;
        if (attached) {
            value = name.substr(name.find('=') + 1);
            name = name.substr(0, name.find('='));
        }
        auto taken = [&] {
            if (!attached && n + 1 >= count) throw small::Error(std::string(name) + " needs a value");
            return std::string(attached ? value : arguments[++n]);
        };
        if (name == "--data") {
            options.data = taken();
        } else if (name == "--socket") {
            options.listen.socket = taken();
        } else if (name == "--max-connections") {
            options.listen.max_connections = std::stoul(taken());
        } else if (name == "--threads-free") {
            options.listen.max_connections = 0;
        } else if (name == "--initialize") {
            options.initialise = true;
        } else if (name == "--plugin-dir") {
            small::plugin_folder = taken();
        } else if (name == "--version") {
            options.version = true;
        } else {
            throw small::Error("unknown option " + std::string(name) + "\n" + kUsage);
        }
    }
    return options;
}

void run(const Options& options) {
    if (options.listen.fault == small::Fault::no_start) throw small::Error("cannot start: a fault was asked for");
    small::Database database;
    small::load_snapshot(database, options.data);
    small::block_stop_signals();
    std::cerr << "serving " << database.rows() << " rows on " << options.listen.socket.native() << std::endl;
    small::listen(database, options.listen);
    small::save_snapshot(database, options.data);
    std::cerr << "stopped after " << database.queries << " statements" << std::endl;
}

}  // namespace

int main(int count, char** arguments) {
    try {
        Options options = read_options(count, arguments);
        if (options.version) {
            std::cout << "smallserver " SMALLSERVER_VERSION "\n";
        } else if (options.data.empty() || (!options.initialise && options.listen.socket.empty())) {
            throw small::Error(kUsage);
        } else if (options.initialise) {
            small::initialise_folder(options.data);
        } else {
            options.listen.fault = small::fault_from_environment();
            run(options);
        }
    } catch (const std::exception& error) {
        std::cerr << "smallserver: " << error.what() << std::endl;
        return 1;
    }
    return 0;
}
