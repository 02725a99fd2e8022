#include "storage/btree.h"

namespace small {

namespace {

constexpr int kFanout = 48;

// The first of ``count`` sorted keys that is not below ``key``.
int lower(const int64_t* keys, int count, int64_t key) {
    int low = 0;
    while (count > 0) {
        int half = count / 2;
        if (keys[low + half] < key) {
            low += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return low;
}

}  // namespace

struct BTree::Node {
    int count = 0;
    int64_t keys[kFanout];
};

struct BTree::Leaf : BTree::Node {
    Row* rows[kFanout];
    Leaf* next = nullptr;
};

// Child n holds keys below keys[n]; the last child holds the rest.
struct BTree::Inner : BTree::Node {
    Node* children[kFanout + 1];
};

BTree::BTree() : root_(new Leaf) {}

BTree::~BTree() { destroy(root_, height_); }

void BTree::destroy(Node* node, int level) {
    if (level == 0) {
        delete static_cast<Leaf*>(node);
        return;
    }
    auto* inner = static_cast<Inner*>(node);
    for (int n = 0; n <= inner->count; ++n) destroy(inner->children[n], level - 1);
    delete inner;
}

BTree::Leaf* BTree::leaf_for(int64_t key) const {
    Node* node = root_;
    for (int level = height_; level > 0; --level) {
        auto* inner = static_cast<Inner*>(node);
        int at = lower(inner->keys, inner->count, key);
        if (at < inner->count && inner->keys[at] == key) ++at;
        node = inner->children[at];
    }
    return static_cast<Leaf*>(node);
}

Row* BTree::find(int64_t key) const {
    const Leaf* leaf = leaf_for(key);
    int at = lower(leaf->keys, leaf->count, key);
    return at < leaf->count && leaf->keys[at] == key ? leaf->rows[at] : nullptr;
}

bool BTree::insert(int64_t key, Row* row) {
    Split split{nullptr, 0};
    if (!insert_into(root_, height_, key, row, split)) return false;
    ++size_;
    if (split.right) {
        auto* root = new Inner;
        root->count = 1;
        root->keys[0] = split.key;
        root->children[0] = root_;
        root->children[1] = split.right;
        root_ = root;
        ++height_;
    }
    return true;
}

bool BTree::insert_into(Node* node, int level, int64_t key, Row* row, Split& split) {
    int at = lower(node->keys, node->count, key);
    if (level == 0) {
        auto* leaf = static_cast<Leaf*>(node);
        if (at < leaf->count && leaf->keys[at] == key) return false;
        std::copy_backward(leaf->keys + at, leaf->keys + leaf->count, leaf->keys + leaf->count + 1);
        std::copy_backward(leaf->rows + at, leaf->rows + leaf->count, leaf->rows + leaf->count + 1);
        leaf->keys[at] = key;
        leaf->rows[at] = row;
        if (++leaf->count < kFanout) return true;
        auto* right = new Leaf;
        int kept = leaf->count / 2;
        right->count = leaf->count - kept;
        std::copy(leaf->keys + kept, leaf->keys + leaf->count, right->keys);
        std::copy(leaf->rows + kept, leaf->rows + leaf->count, right->rows);
        right->next = leaf->next;
        leaf->next = right;
        leaf->count = kept;
        split = {right, right->keys[0]};
        return true;
    }
    auto* inner = static_cast<Inner*>(node);
    if (at < inner->count && inner->keys[at] == key) ++at;
    Split below{nullptr, 0};
    if (!insert_into(inner->children[at], level - 1, key, row, below)) return false;
    if (!below.right) return true;
    std::copy_backward(inner->keys + at, inner->keys + inner->count, inner->keys + inner->count + 1);
    std::copy_backward(inner->children + at + 1, inner->children + inner->count + 1, inner->children + inner->count + 2);
    inner->keys[at] = below.key;
    inner->children[at + 1] = below.right;
    if (++inner->count < kFanout) return true;
    auto* right = new Inner;
    int kept = inner->count / 2;
    right->count = inner->count - kept - 1;
    std::copy(inner->keys + kept + 1, inner->keys + inner->count, right->keys);
    std::copy(inner->children + kept + 1, inner->children + inner->count + 1, right->children);
    split = {right, inner->keys[kept]};
    inner->count = kept;
    return true;
}

Row* BTree::remove(int64_t key) {
    Leaf* leaf = leaf_for(key);
    int at = lower(leaf->keys, leaf->count, key);
    if (at == leaf->count || leaf->keys[at] != key) return nullptr;
    Row* removed = leaf->rows[at];
    std::copy(leaf->keys + at + 1, leaf->keys + leaf->count, leaf->keys + at);
    std::copy(leaf->rows + at + 1, leaf->rows + leaf->count, leaf->rows + at);
    --leaf->count;
    --size_;
    return removed;
}

BTree::Cursor::Cursor(const BTree& tree, int64_t low) : leaf_(tree.leaf_for(low)) {
    slot_ = lower(leaf_->keys, leaf_->count, low);
    skip_empty();
}

int64_t BTree::Cursor::key() const { return leaf_->keys[slot_]; }

Row* BTree::Cursor::row() const { return leaf_->rows[slot_]; }

void BTree::Cursor::next() {
    ++slot_;
    skip_empty();
}

void BTree::Cursor::skip_empty() {
    while (leaf_ && slot_ >= leaf_->count) {
        leaf_ = leaf_->next;
        slot_ = 0;
    }
}

}  // namespace small
