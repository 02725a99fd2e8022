// smallload: fills smallserver, and loads it for a time with one of several kinds of statements.
//
//   smallload fill --socket S [--tables N] [--rows N] [--threads N]
//   smallload run --kind point|mix|write|scan --socket S --threads N --seconds N [--seed N] [--batch N]
//                 [--batches N] [--tables N] [--rows N]
//
// A batch of statements travels together, so that the server's own work outweighs the kernel's. With
// --batches, each thread ends after so many. The last line of ``run`` is JSON: statements, errors, seconds, and latency
// percentiles of batches in milliseconds.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "load/client.h"

namespace {

using Clock = std::chrono::steady_clock;

struct Options {
    std::string command, socket, kind = "point";
    unsigned threads = 1, seconds = 1, tables = 4, rows = 2000, batch = 8, batches = 0;
    uint64_t seed = 1;
};

// xorshift64*: small and quick; the same sequence everywhere.
class Random {
public:
    explicit Random(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 1) {}
    uint64_t below(uint64_t limit) {
        state_ ^= state_ >> 12;
        state_ ^= state_ << 25;
        state_ ^= state_ >> 27;
        return (state_ * 0x2545F4914F6CDD1Du >> 32) % limit;
    }

private:
    uint64_t state_;
};

std::string digits(Random& random, int groups) {
    std::string made;
    for (int group = 0; group < groups; ++group) {
        if (group) made += '-';
        for (int n = 0; n < 6; ++n) made += static_cast<char>('0' + random.below(10));
    }
    return made;
}

std::string table(const Options& options, Random& random) { return "t" + std::to_string(1 + random.below(options.tables)); }

std::string point(const Options& options, Random& random) {
    std::string made = "SELECT id, k, upper(c), format(k * 3) FROM " + table(options, random) + " WHERE id IN (";
    for (int n = 0; n < 20; ++n) made += (n ? ", " : "") + std::to_string(1 + random.below(options.rows));
    return made + ") AND (k + id) % 1000 <> 1001 AND NOT length(c) < 3 AND c LIKE '%-%'";
}

std::string range(const Options& options, Random& random) {
    uint64_t from = 1 + random.below(options.rows);
    return "SELECT id, concat(substr(c, 1, 6), ':', format(k)) FROM " + table(options, random) + " WHERE id BETWEEN " +
           std::to_string(from) + " AND " + std::to_string(from + 49) + " AND (k > 10 OR digits(pad) > 3) ORDER BY c";
}

std::string total(const Options& options, Random& random) {
    uint64_t from = 1 + random.below(options.rows);
    return "SELECT COUNT(*), SUM(k * 2 + length(c)), MAX(c) FROM " + table(options, random) + " WHERE id >= " +
           std::to_string(from) + " AND id < " + std::to_string(from + 100) + " AND NOT k = 17";
}

std::string scan(const Options& options, Random& random) {
    uint64_t from = 1 + random.below(options.rows);
    return "SELECT COUNT(*), AVG(if(k % 3 = 1, k, id)), MIN(pad) FROM " + table(options, random) + " WHERE id BETWEEN " +
           std::to_string(from) + " AND " + std::to_string(from + 249) + " AND c LIKE '" +
           std::to_string(random.below(10)) + "%-%' AND (k > 40 OR k IN (1, 2, 3, 5, 8, 13))";
}

std::string update(const Options& options, Random& random) {
    uint64_t from = 1 + random.below(options.rows);
    return "UPDATE " + table(options, random) + " SET k = (k + 7) % 1000000, c = concat(substr(c, 8, 40), '-', '" +
           digits(random, 1) + "') WHERE id BETWEEN " + std::to_string(from) + " AND " + std::to_string(from + 9) +
           " AND length(c) > 7";
}

std::string row(uint64_t id, Random& random) {
    return "(" + std::to_string(id) + ", " + std::to_string(random.below(1000000)) + ", '" + digits(random, 6) + "', '" +
           digits(random, 3) + "')";
}

std::string replace(const Options& options, Random& random, bool remove) {
    // Keys above those of the fill, so that other kinds still find all of theirs.
    uint64_t id = options.rows + 1 + random.below(500);
    if (remove) return "DELETE FROM " + table(options, random) + " WHERE id = " + std::to_string(id);
    return "INSERT INTO " + table(options, random) + " VALUES " + row(id, random);
}

std::string write(const Options& options, Random& random) {
    uint64_t dice = random.below(10);
    return dice < 7 ? update(options, random) : replace(options, random, dice == 9);
}

std::string mix(const Options& options, Random& random) {
    uint64_t dice = random.below(20);
    if (dice < 9) return point(options, random);
    if (dice < 13) return range(options, random);
    return dice < 16 ? total(options, random) : update(options, random);
}

using Make = std::string (*)(const Options&, Random&);
const std::map<std::string, Make> kKinds = {{"point", point}, {"mix", mix}, {"write", write}, {"scan", scan}};

struct Outcome {
    std::vector<uint32_t> latencies_us;
    uint64_t errors = 0;
};

Outcome load(const Options& options, unsigned number, Clock::time_point end) {
    Make make = kKinds.at(options.kind);
    Random random(options.seed * 1000 + number);
    load::Client client(options.socket);
    // Making statements costs the client more than sending them: a stock of batches goes round.
    std::vector<std::string> batches(250);
    for (std::string& batch : batches) {
        for (unsigned n = 0; n < options.batch; ++n) batch += make(options, random) + '\n';
    }
    Outcome outcome;
    for (size_t n = 0;; n = (n + 1) % batches.size()) {
        Clock::time_point started = Clock::now();
        if (started >= end || (options.batches && outcome.latencies_us.size() == options.batches)) return outcome;
        if (int failed = client.request(batches[n])) {
            if (outcome.errors == 0) std::cerr << "smallload: " << client.error() << std::endl;
            outcome.errors += static_cast<uint64_t>(failed);
        }
        auto taken = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - started);
        outcome.latencies_us.push_back(static_cast<uint32_t>(taken.count()));
    }
}

// Runs ``work`` in all threads; the first exception of any of them is raised here.
void in_threads(unsigned count, const std::function<void(unsigned)>& work) {
    std::vector<std::exception_ptr> failed(count);
    std::vector<std::thread> threads;
    for (unsigned n = 0; n < count; ++n) {
        threads.emplace_back([&, n] {
            try {
                work(n);
            } catch (...) {
                failed[n] = std::current_exception();
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::exception_ptr& error : failed) {
        if (error) std::rethrow_exception(error);
    }
}

void fill(const Options& options) {
    std::atomic<unsigned> next{1};
    in_threads(options.threads, [&](unsigned) {
        load::Client client(options.socket);
        for (unsigned number; (number = next++) <= options.tables;) {
            Random random(number);
            std::string name = "t" + std::to_string(number);
            auto must = [&](const std::string& statement) {
                if (client.request(statement + '\n')) throw std::runtime_error(client.error());
            };
            must("CREATE TABLE " + name + " (id INT, k INT, c TEXT, pad TEXT)");
            for (unsigned first = 1; first <= options.rows; first += 100) {
                std::string statement = "INSERT INTO " + name + " VALUES ";
                for (unsigned id = first; id < first + 100 && id <= options.rows; ++id) {
                    statement += (id == first ? "" : ", ") + row(id, random);
                }
                must(statement);
            }
        }
    });
}

void run(const Options& options) {
    std::vector<Outcome> outcomes(options.threads);
    Clock::time_point started = Clock::now(), end = started + std::chrono::seconds(options.seconds);
    in_threads(options.threads, [&](unsigned number) { outcomes[number] = load(options, number, end); });
    double seconds = std::chrono::duration<double>(Clock::now() - started).count();
    std::vector<uint32_t> all;
    uint64_t errors = 0;
    for (const Outcome& outcome : outcomes) {
        all.insert(all.end(), outcome.latencies_us.begin(), outcome.latencies_us.end());
        errors += outcome.errors;
    }
    std::sort(all.begin(), all.end());
    auto percentile_ms = [&](double share) {
        return all.empty() ? 0.0 : all[static_cast<size_t>(share * static_cast<double>(all.size() - 1))] / 1000.0;
    };
    std::printf(
        "{\"statements\": %zu, \"errors\": %llu, \"seconds\": %.3f, \"latency_ms_p50\": %.3f, \"latency_ms_p95\": %.3f, "
        "\"latency_ms_p99\": %.3f}\n",
        all.size() * options.batch, static_cast<unsigned long long>(errors), seconds, percentile_ms(0.50), percentile_ms(0.95),
        percentile_ms(0.99));
}

Options read_options(int count, char** arguments) {
    Options options;
    if (count < 2) throw std::runtime_error("fill or run?");
    options.command = arguments[1];
    for (int n = 2; n < count; n += 2) {
        std::string name = arguments[n];
        if (n + 1 >= count) throw std::runtime_error(name + " needs a value");
        std::string value = arguments[n + 1];
        auto number = [&] { return static_cast<unsigned>(std::stoul(value)); };
        if (name == "--socket") options.socket = value;
        else if (name == "--kind") options.kind = value;
        else if (name == "--threads") options.threads = number();
        else if (name == "--seconds") options.seconds = number();
        else if (name == "--tables") options.tables = number();
        else if (name == "--rows") options.rows = number();
        else if (name == "--batch") options.batch = number();
        else if (name == "--batches") options.batches = number();
        else if (name == "--seed") options.seed = std::stoull(value);
        else throw std::runtime_error("unknown option " + name);
    }
    if (!kKinds.count(options.kind)) throw std::runtime_error("unknown kind " + options.kind);
    return options;
}

}  // namespace

int main(int count, char** arguments) {
    try {
        Options options = read_options(count, arguments);
        if (options.command != "fill" && options.command != "run") throw std::runtime_error("fill or run?");
        options.command == "fill" ? fill(options) : run(options);
    } catch (const std::exception& error) {
        std::cerr << "smallload: " << error.what() << std::endl;
        return 1;
    }
    return 0;
}
