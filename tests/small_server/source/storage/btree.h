// An ordered index from integer keys to rows: a B+ tree whose leaves are linked.
#pragma once

#include "core/prelude.h"

namespace small {

struct Row;

class BTree {
public:
    BTree();
    ~BTree();
    BTree(const BTree&) = delete;
    BTree& operator=(const BTree&) = delete;

    Row* find(int64_t key) const;
    // False when the key is there already.
    bool insert(int64_t key, Row* row);
    // The row that was removed, or null. Leaves may run empty; they stay linked.
    Row* remove(int64_t key);
    size_t size() const { return size_; }
    int height() const { return height_; }

private:
    struct Node;
    struct Leaf;
    struct Inner;

public:
    // Walks keys upwards from the first one that is not below ``low``.
    class Cursor {
    public:
        Cursor(const BTree& tree, int64_t low);
        bool at_end() const { return leaf_ == nullptr; }
        int64_t key() const;
        Row* row() const;
        void next();

    private:
        void skip_empty();
        const Leaf* leaf_;
        int slot_;
    };

private:
    struct Split {
        Node* right;
        int64_t key;
    };
    Leaf* leaf_for(int64_t key) const;
    bool insert_into(Node* node, int level, int64_t key, Row* row, Split& split);
    void destroy(Node* node, int level);

    Node* root_;
    int height_ = 0;
    size_t size_ = 0;
};

}  // namespace small
