# lathe: every command. `make help` lists the goals.

CC      = gcc
LUA     = lua5.4
CFLAGS  = -O2 -g
SAN     =#          address,undefined: a build with sanitizers, in a folder of its own
OUT     = build#    where everything goes
REF     = main#     `make replay` compares the generated text with this commit's
SECONDS = 60#      that `make fuzz` gives each reader
TOOL    =#          memcheck, racecheck: `make check-gpu` under compute-sanitizer

# ---- nothing to change below ----

comma  := ,
B      := $(OUT)$(if $(SAN),/san-$(subst $(comma),-,$(SAN)))
O      := $(B)/obj
G      := $(OUT)/gen
SANFLAGS := $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer)
WARN   := -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes \
          -Wdouble-promotion -Wundef
FLAGS   = -std=gnu11 $(CFLAGS) $(WARN) $(WERROR) $(SANFLAGS) -ffp-contract=off -fPIE \
          -I. -I$(G) -I/usr/include/lua5.4 -MMD -MP
LIBS   := -l:liblua5.4-cjson.a -l:liblua5.4.a -l:libtcc.a -l:libmd.a -l:libpcre2-8.a \
          -lm -ldl -lpthread

EMBED  := $(shell find gen lua families templates cache/tuned -type f \
            \( -name '*.lua' -o -name '*.cut' -o -name '*.h' -o -name '*.tuned' \) \
            -not -path 'lua/*.h' 2>/dev/null | LC_ALL=C sort)
ARGPARSE := lib/argparse.lua=$(firstword $(wildcard /usr/share/lua/5.4/argparse.lua \
            /usr/share/lua/common/argparse.lua /usr/local/share/lua/5.4/argparse.lua))
FAMILIES := $(wildcard families/*.lua)

C      := $(wildcard runtime/*.c runtime/cpu/*.c runtime/cuda/*.c cache/*.c families/*.c lua/*.c)
S      := $(wildcard runtime/*/*.S)
REFERENCE := $(O)/gen/reference.o
OBJ    := $(C:%.c=$(O)/%.o) $(S:%.S=$(O)/%.o) $(REFERENCE) \
          $(O)/gen/embedded.o $(O)/gen/embedded_bytes.o
FAKE   := $(patsubst %.c,$(O)/%.o,$(wildcard tests/cpu/*_fake.c))
TESTC  := $(filter-out %_fake.c,$(wildcard tests/cpu/*.c))
TESTS  := $(TESTC:tests/cpu/%.c=$(B)/tests/%)
GPUC   := $(wildcard tests/gpu/*.c)
GPUS   := $(GPUC:tests/gpu/%.c=$(B)/gpu/%)
LIB    := $(filter-out $(O)/lua/main.o,$(OBJ))

FAULT  := $(B)/fault.so $(B)/driver/libcuda.so.1

.DELETE_ON_ERROR:
.SECONDARY:
.PHONY: all setup demo test test-c test-lua test-all golden golden+ replay check-gpu dist lint \
        size clean help fuzz objects test-objects programs FORCE

all: lathe ## build ./lathe (the default)

$(B)/lathe: $(OBJ)
	@echo "  link  $@"
	@$(CC) $(SANFLAGS) -pie -o $@ $^ $(LIBS)

lathe: $(B)/lathe
	@cp $< $@.new && mv $@.new $@

setup: ## find what the build needs, install what is missing
	@tools/setup.sh

objects: $(OBJ)
programs: $(B)/lathe $(TESTS)
test-objects: $(TESTC:%.c=$(O)/%.o) $(FAKE) $(GPUC:%.c=$(O)/%.o)

# The generated sources. A list changes when its words do: a file that went away is noticed.
$(G)/embedded.list: WORDS = $(EMBED) $(ARGPARSE)
$(G)/families.list: WORDS = $(FAMILIES)
$(G)/%.list: FORCE | setup
	@mkdir -p $(G)
	@echo '$(WORDS)' | cmp -s - $@ || echo '$(WORDS)' > $@
$(G)/embedded.c: $(G)/embedded.list $(EMBED) tools/embed.lua
	@$(LUA) tools/embed.lua $(G) $(EMBED) $(ARGPARSE)
$(G)/embedded.S: $(G)/embedded.c ;
$(G)/reference.h: $(G)/families.list tools/reference.lua $(FAMILIES) $(wildcard gen/*.lua) | setup
	@mkdir -p $(G)
	@$(LUA) tools/reference.lua $(G) $(FAMILIES)
$(G)/reference.c: $(G)/reference.h ;

$(O)/gen/embedded_bytes.o: $(G)/embedded.S
	@mkdir -p $(@D)
	@$(CC) -c -o $@ $<
$(O)/gen/%.o: $(G)/%.c
	@mkdir -p $(@D)
	@echo "  cc    $<"
	@$(CC) $(FLAGS) -c -o $@ $<
$(O)/%.o: %.c | $(G)/reference.h setup
	@mkdir -p $(@D)
	@echo "  cc    $<"
	@$(CC) $(FLAGS) -c -o $@ $<
$(O)/%.o: %.S | setup
	@mkdir -p $(@D)
	@$(CC) -c -o $@ $<

$(B)/tests/%: $(O)/tests/cpu/%.o $(FAKE) $(LIB)
	@mkdir -p $(@D)
	@$(CC) $(SANFLAGS) -pie -o $@ $^ -lcmocka $(LIBS)
$(B)/gpu/%: $(O)/tests/gpu/%.o $(LIB)
	@mkdir -p $(@D)
	@$(CC) $(SANFLAGS) -pie -o $@ $^ $(LIBS)

demo: lathe ## a few kernels from their description to their check, on the default device
	@tools/demo.sh
test: lathe programs $(FAULT) $(B)/replay ## all tests that need no GPU: minutes
	@tools/run-tests.sh $(B) c lua golden compile check faults fuzz
test-c: programs ## the C programs of `make test`
	@tools/run-tests.sh $(B) c
test-lua: lathe ## the Lua suite of `make test`
	@tools/run-tests.sh $(B) lua
test-all: lathe programs $(FAULT) ## what `make test` leaves out: longer suites, sanitizers
	@failed=0; tools/run-tests.sh $(B) long || failed=1; \
	$(MAKE) --no-print-directory SAN=address,undefined test-c || failed=1; exit $$failed

golden: setup ## show how the generated text differs from tests/golden
	@tools/golden.sh
golden+: setup ## rewrite tests/golden
	@tools/golden.sh +
replay: setup ## show how the generated text differs from that of REF=main
	@tools/replay.sh $(REF)

$(B)/gpu/clock/%.so.1: tests/gpu/clock/driver_clock.c runtime/cuda/driver.h
	@mkdir -p $(@D)
	@$(CC) -std=gnu11 $(CFLAGS) -Wall -Wextra -I. -fPIC -shared $< -o $@ -ldl

$(B)/fault.so: tests/fault/fault.c | setup
	@mkdir -p $(@D)
	@$(CC) -std=gnu11 $(CFLAGS) $(WARN) $(WERROR) -fPIC -shared $< -o $@ -ldl

# A driver without a GPU: the fake of the C tests, position-independent.
DRIVER := tests/fault/driver.c tests/cpu/cuda_fake.c runtime/cuda/driver.c runtime/cuda/cubin.c \
          runtime/bytes.c runtime/err.c runtime/number.c families/rms_norm.c \
          families/w8a8_act_quant.c
$(B)/driver/libcuda.so.1: $(DRIVER) $(wildcard tests/cpu/cuda_fake.h runtime/*.h runtime/cuda/*.h) \
                          | $(G)/reference.h setup
	@mkdir -p $(@D)
	@$(CC) -std=gnu11 $(CFLAGS) $(WARN) $(WERROR) -I. -I$(G) -fPIC -shared -Wl,-z,defs \
	    $(DRIVER) -o $@ -l:libmd.a -lm -ldl

# Fuzzing needs clang with libFuzzer; its programs and what they find lie in $(OUT)/fuzz.
FUZZC  = clang -std=gnu11 -O1 -g -fsanitize=fuzzer-no-link,address,undefined \
         -fno-sanitize-recover=all -fPIE -I. -I$(G) -I/usr/include/lua5.4
FUZZO := $(patsubst $(O)/%.o,$(OUT)/fuzz/%.o,$(filter-out %.S $(O)/lua/bind.o,$(LIB)))
$(OUT)/fuzz/gen/%.o: $(O)/gen/%.o
	@mkdir -p $(@D) && cp $< $@
$(OUT)/fuzz/runtime/cpu/%.o: runtime/cpu/%.S
	@mkdir -p $(@D) && clang -c -o $@ $<
$(OUT)/fuzz/%.o: %.c | $(G)/reference.h
	@mkdir -p $(@D)
	@echo "  clang $<"
	@$(FUZZC) -c -o $@ $<
$(OUT)/fuzz/fuzz: $(OUT)/fuzz/tests/fuzz/fuzz.o $(FUZZO)
	@$(FUZZC) -fsanitize=fuzzer -pie -o $@ $^ $(LIBS)
fuzz: $(OUT)/fuzz/fuzz ## mutate what is read, SECONDS=60 a reader; needs clang with libFuzzer
	@tests/fuzz/fuzz.sh $(OUT)/fuzz $(SECONDS)

$(B)/replay: $(O)/tests/fuzz/replay.o $(O)/tests/fuzz/fuzz.o $(filter-out $(O)/lua/bind.o,$(LIB))
	@$(CC) $(SANFLAGS) -pie -o $@ $^ $(LIBS)

CLOCK := $(B)/gpu/clock/libcuda.so.1
dist: lathe $(GPUS) $(CLOCK) ## collect in build/dist what a GPU machine needs, no compiler
	@rm -rf $(OUT)/dist && mkdir -p $(OUT)/dist
	@cp -r lathe $(GPUS) $(B)/gpu/clock $(wildcard $(addprefix tests/gpu/*.,sh txt py)) $(OUT)/dist/
check-gpu: ## run the GPU tests of build/dist on this machine; builds nothing
	@tests/gpu/check.sh $(OUT)/dist $(TOOL)

lint: ## format, warnings, layering, luacheck, widths
	@tools/lint.sh
size: lathe ## lines of each file and long functions, size of the program
	@tools/size.sh
clean: ## remove what was built
	@rm -rf $(OUT) lathe
help: ## this list
	@sed -n 's/^\([a-z+-]*\):.*## \(.*\)/\1\t\2/p' Makefile | expand -t 12

-include $(shell find $(O) -name '*.d' 2>/dev/null)
