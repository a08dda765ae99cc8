# What `run` and `keep` share. To be read by bash, in this folder.

targets() { sed -n 's|^path = "fuzz_targets/\(.*\)\.rs"|\1|p' Cargo.toml; }

build() {
    command -v cargo-fuzz >/dev/null || { echo 'cargo-fuzz is missing: cargo install cargo-fuzz --locked'; exit 1; }
    if [ $# -eq 1 ]; then
        cargo +nightly fuzz build --fuzz-dir . "$1"
    else
        cargo +nightly fuzz build --fuzz-dir .
    fi
}

binary() {
    local host
    host=$(rustc -vV | sed -n 's/^host: //p')
    echo "${CARGO_TARGET_DIR:-target}/$host/release/$1"
}

# The committed inputs become files, which is what the fuzzer reads.
unpack() {
    local line nth=0
    mkdir -p "corpus/$1"
    [ -f "seeds/$1.hex" ] || return 0
    while read -r line; do
        nth=$((nth + 1))
        printf "$line" >"corpus/$1/seed-$nth"
    done < <(sed -e '/^#/d' -e 's/../\\x&/g' "seeds/$1.hex")
}
