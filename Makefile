# Every target sets up what it needs from a bare clone: Python 3.11 or later, and PyPI.
#
#   make run                 a cluster of three nodes, its data in ./data; ARGS="--nodes 5 --override key=value"
#   make test                the tests, in five processes; WORKERS=2 ARGS="-k words"
#   make test-client-kafka   the client library's tests against Apache Kafka; needs java and mvn, skipped without
#   make kafka-facts         tests/kafka_facts from Apache Kafka's own jars; needs a JDK and mvn; KAFKA=4.5.0, ARGS=apis
#   make test-differential   random sequences of requests to a node and to Apache Kafka, whose responses must be the same;
#                            needs java and mvn, skipped without; FAMILY=transactions FIRST=0 COUNT=1000
#   make test-kafka-monitoring  Kafka's own client and tools: pushed metrics, loggers; needs java and mvn
#   make test-spark-tables   load into Delta Lake and Iceberg, and of Avro values; needs java and mvn, skipped without
#   make test-java-clients   Apache Kafka's Java client: logins, transactions, share groups, and Kafka Streams under kills of
#                            nodes; needs a JDK and mvn, skipped without; ARGS="--kills 20"
#   make test-control-clients  clients of test clusters in Go, Java and TypeScript, each skipped without its language; for
#                            one of them: make test-control-clients-go, -java, -typescript
#   make test-go-clients     franz-go: each way to authenticate; needs go, skipped without
#   make test-prometheus     Prometheus itself scrapes three nodes, two of which die; skipped where it cannot be had;
#                            ARGS="--prometheus-plots docs/images" plots what it has found
#   make test-portable       tests without what only Linux has, as on macOS; ARGS="tests/clients"
#   make explore             the tests that draw examples, on new ones, until SECONDS=600 are over; WORKERS=1
#                            ARGS="tests/broker/storage" for a part; prints what draws the examples of a failure again
#   make test-mutations      changes one place of the code at a time, and prints the changes that no test of the package
#                            notices; COUNT=300 SEED=1 JOBS=2 ARGS="--packages kraft/core"
#   make test-interpreters   the packages' own tests on the other supported versions of Python that are installed
#   make test-wheel          the built wheel in an empty environment: import, produce and consume, read by Spark
#   make test-example-repository  the tests of docs/testing-examples.md with the built wheel in an empty environment; RUNS=50
#   make check               lint, format, types, and known advisories of the dependencies where a source is reachable
#   make docs                the references, the dashboard and the alert rules, from the source
#   make terminal-images     docs/images: what some commands print on a terminal
#   make soak                many simulated runs; SEEDS=2000 SECONDS=60 (virtual) JOBS=2 FIRST=1 ARGS="--nodes quorum-3"
#   make soak-example        the tests of docs/testing-simulation.md; SEEDS=100
#   make jepsen              a few short runs of real nodes under faults; ARGS="--time 120 --nodes 5"
#   make fuzz                hostile frames to all ports of a node; FRAMES=200000 SEED=1 ARGS="--ports quorum"
#   make half-open           connections that never finish a TLS handshake or a login; ARGS="--connections 5000"
#   make transaction-kills   transactions under 20 kills each of coordinators, leaders and clients; ARGS="--kills 5"
#   make maintenance         drain, restart, unregister, rebalance and rejoin under writes, each killed and resumed
#   make spark-kills         streaming under 20 kills each of its driver, its workers, brokers and coordinators; ARGS="--kills 5"
#   make spark-steady        streaming at a steady rate for 30 minutes: memory and lag; ARGS="--minutes 5"
#   make spark-standalone    the Spark jobs on a master and two workers, which are processes of this machine
#   make spark-demo          the Spark jobs at work: three nodes, a generator, a load beside it, a page; ARGS="--seconds 90"
#   make bench               the hot path's floors, then one node under real clients
#   make bench-client-library   the client library beside confluent-kafka, kafka-python and aiokafka
#   make bench-report        docs/benchmarks.md: nodes and clusters here and of Apache Kafka under the same loads; needs java
#                            and mvn, skipped without; ARGS="--only zstd TLS --rounds 1", ARGS="--from docs/benchmarks.json"
#   make bench-kafka         the part of it about one node
#   make bench-replication   the part of it about three nodes and three replicas
#   make bench-followers     what partitions cost the brokers that replicate them, idle and per batch
#   make bench-moves         leaders that move when a broker dies, and partitions that move under load; ARGS="kill"
#   make bench-failover      how long writes wait when the leader of a partition is killed, and the steps of the slowest
#                            failover; ARGS="--seconds 60"
#   make bench-quotas        limited clients, 2,000 connections a second, and the cost of quotas; beside Apache Kafka
#   make bench-transactions  idempotence, commits, aborted records, 20,000 ids; beside Apache Kafka; ARGS="--only ids"
#   make bench-share         members of share groups, and 1,000,000 records in flight, beside Apache Kafka; ARGS="--only rows"
#   make bench-groups        many groups whose members commit, here and on Apache Kafka; ARGS="--cluster kraft --groups 100"
#   make bench-metadata      what the metadata costs as partitions grow: changes, snapshots, an idle controller
#   make bench-loop-holds    how long the largest request of each API holds the event loop; ARGS="--apis 3 32 --last"
#   make bench-metrics       a scrape with 100,000 partitions and with 10,000 quotas; ARGS="--partitions 10000"
#   make bench-plans         plans of `kraft reassign plan` beside those of Kafka's tool; needs java and mvn, skipped without
#   make bench-test-clusters how fast a test gets a node or a cluster, beside kraft cluster start; ARGS="--runs 200"
#   make bench-tls           TLS beside Apache Kafka's, and beside no TLS; needs java and mvn, skipped without
#   make bench-host-brokers  CPU time per record and request with 1, 2 and 4 brokers of one host; ARGS="--rounds 1"
#   make bench-scrub         CPU of the scrubber per GB, and latencies beside a pass; ARGS="--seconds 60"
#   make bench-spark-load    a load of 10 GB by Spark, killed and resumed; ARGS="--gigabytes 1"
#   make bench-spark         reads by Spark beside Spark's own Kafka connector; needs java, and mvn for the connector
#   make bench-spark-check   kraft spark check on 50,000,000 operations with planted anomalies; ARGS="--operations 1000000"
#   make kafka-dump-log      Apache Kafka's own dump tool over DIR=<data directory>

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The load generator is C: PyPI's compiler where the system has none.
COMPILER := $(if $(shell command -v cc),,--group bench-compiler)

# Where the environment disables compiled modules beside the sources, each process would compile all modules that it
# imports: a node 560 of them, in 0.3 s. The processes of a target share a directory of compiled modules instead.
ifneq ($(PYTHONDONTWRITEBYTECODE),)
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX ?= $(CURDIR)/$(VENV)/compiled
endif

.DELETE_ON_ERROR:
# Tests that are under way at the same time, on two cores. Half of their time they wait.
WORKERS ?= 5
SEEDS ?= 2000
SECONDS ?= 60
JOBS ?= 2
FIRST ?= 1
FRAMES ?= 200000
SEED ?= 1
# PySpark's version for the tests of tables: 4_1 has all packages; 4_2 has none for Iceberg.
SPARK ?= 4_1

# The tests of nodes, the command line, the clients and the pytest plugin.
PORTABLE_TESTS := tests/kraft tests/broker/net tests/broker/cli tests/broker/client tests/broker/storage \
	tests/broker/security tests/broker/metrics tests/broker/test_node.py tests/clients tests/jepsen/testing

.PHONY: venv run kafka-facts test test-portable explore test-mutations test-client-kafka test-differential test-kafka-monitoring test-spark-tables \
	test-java-clients test-go-clients test-control-clients test-prometheus test-interpreters test-wheel test-example-repository soak-example check docs terminal-images soak jepsen fuzz half-open \
	transaction-kills maintenance spark-kills \
	spark-standalone spark-steady spark-demo bench bench-client-library bench-report bench-kafka bench-replication \
	bench-followers bench-moves bench-failover bench-transactions bench-groups bench-share bench-quotas bench-metadata bench-loop-holds \
	bench-metrics bench-plans bench-test-clusters bench-host-brokers bench-scrub bench-tls bench-spark bench-spark-load bench-spark-check kafka-dump-log

venv: $(VENV)/.installed-test $(VENV)/.installed-check

run: $(VENV)/.installed
	$(BIN)/kraft cluster start $(ARGS)

test: $(VENV)/.installed-test
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal $(ARGS)

# The processes of the tests, and their children, lack what only Linux has.
test-portable: ARGS := $(or $(ARGS),$(PORTABLE_TESTS))
test-portable: $(VENV)/.installed-test
	PYTHONPATH=$(CURDIR)/tests/support/portable_system $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal $(ARGS)

explore: SECONDS := 600
explore: $(VENV)/.installed-test
	$(BIN)/python -m tests.support.exploration --seconds $(SECONDS) --workers $(WORKERS) $(ARGS)

test-mutations: COUNT := 300
test-mutations: $(VENV)/.installed-test
	$(BIN)/python -m tests.mutation --count $(COUNT) --seed $(SEED) --jobs $(JOBS) $(ARGS)

test-client-kafka: $(VENV)/.installed-test
	$(BIN)/python -m pytest tests/clients/client_library tests/clients/test_transaction_requests.py --apache-kafka -k apache-kafka $(ARGS)

kafka-facts: $(VENV)/.installed-test
	$(if $(KAFKA),KRAFT_KAFKA_VERSION=$(KAFKA)) $(BIN)/python -m tests.support.make_kafka_facts $(ARGS)

test-differential: $(VENV)/.installed-test
	$(BIN)/python -m tests.differential $(if $(FAMILY),--family $(FAMILY)) $(if $(FIRST),--first $(FIRST)) \
		$(if $(COUNT),--count $(COUNT)) $(ARGS)

test-kafka-monitoring: $(VENV)/.installed-test
	$(BIN)/python -m pytest tests/clients/test_kafka_monitoring.py --apache-kafka $(ARGS)

# In an environment of its own: PySpark has to be of the version of which the packages are on Maven Central.
test-spark-tables: VENV := .venv-spark-$(SPARK)
test-spark-tables:
	$(MAKE) VENV=$(VENV) $(VENV)/.installed-spark-tables-$(SPARK)
	@# PySpark 4.1 leaves its sockets to the garbage collector.
	$(VENV)/bin/python -m pytest tests/broker/spark/tables --spark-tables \
		-W ignore::pytest.PytestUnraisableExceptionWarning $(ARGS)

test-java-clients: $(VENV)/.installed-test
	$(BIN)/python -m pytest tests/clients/java --java-clients $(ARGS)

test-control-clients: $(VENV)/.installed-test
	$(BIN)/python -m pytest tests/jepsen/testing_clients --control-clients $(ARGS)

test-control-clients-%: $(VENV)/.installed-test
	$(BIN)/python -m pytest tests/jepsen/testing_clients --control-clients -k $* $(ARGS)

test-go-clients: $(VENV)/.installed-test
	$(BIN)/python -m pytest tests/clients/go --go-clients $(ARGS)

test-prometheus: $(VENV)/.installed-test
	$(BIN)/python -m pytest tests/broker/metrics/test_prometheus.py --prometheus $(ARGS)

test-interpreters: $(VENV)/.installed-test
	ARGS="$(ARGS)" .ci/test-interpreters

test-wheel: $(VENV)/.installed-test $(VENV)/.installed-package
	.ci/test-wheel

test-example-repository: $(VENV)/.installed-test $(VENV)/.installed-package
	.ci/test-example-repository

check: $(VENV)/.installed-test $(VENV)/.installed-check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m tests.support.dependency_audit

docs: $(VENV)/.installed-test
	$(BIN)/python -m tests.support.reference_pages
	$(BIN)/python -m tests.support.event_reference > docs/events.md
	$(BIN)/python -m tests.support.config_reference > docs/configs.md
	$(BIN)/python -m tests.support.metric_reference > docs/metrics.md
	$(BIN)/python -m broker.metrics.operations.dashboard > docs/dashboards/kraft.json
	$(BIN)/python -m broker.metrics.operations.alerts > docs/dashboards/alerts.yml

terminal-images: $(VENV)/.installed-test
	$(BIN)/python -m tests.support.terminal_images

soak-example: SEEDS := 100
soak-example: $(VENV)/.installed-test
	rm -rf $(VENV)/simulated-shop
	$(BIN)/python -m tests.support.example_repository $(VENV)/simulated-shop docs/testing-simulation.md
	cd $(VENV)/simulated-shop && SEEDS=$(SEEDS) PYTHONPATH=$(CURDIR) $(abspath $(BIN)/python) -m pytest -s -p no:cacheprovider $(ARGS)

soak: $(VENV)/.installed
	$(BIN)/python -m jepsen sim --seed $(FIRST) --count $(SEEDS) --time $(SECONDS) --jobs $(JOBS) $(ARGS)

jepsen: $(VENV)/.installed-test
	$(BIN)/python -m jepsen run --workload queue --nemesis kill,pause,restart,disk-full --time 40 $(ARGS)
	$(BIN)/python -m jepsen run --workload queue --nemesis halves,majority-ring,bridge,one-way --time 40 $(ARGS)
	$(BIN)/python -m jepsen run --workload offsets --nemesis isolate-leader,isolate-controller --time 40 $(ARGS)
	$(BIN)/python -m jepsen run --workload groups --nemesis kill-coordinator,isolate-coordinator,pause --time 60 $(ARGS)
	$(BIN)/python -m jepsen run --workload commits --nemesis kill-coordinator,halves --time 40 $(ARGS)
	$(BIN)/python -m jepsen run --workload shares --nemesis kill-leader,kill-coordinator,pause,halves --time 60 $(ARGS)
	$(BIN)/python -m jepsen run --workload metadata --nemesis kill,isolate-controller,reset --time 40 $(ARGS)

fuzz: $(VENV)/.installed-test
	$(BIN)/python -m jepsen fuzz --frames $(FRAMES) --seed $(SEED) $(ARGS)

half-open: $(VENV)/.installed-test
	$(BIN)/python -m jepsen half-open $(ARGS)

transaction-kills: $(VENV)/.installed-test
	$(BIN)/python -m pytest tests/clients/test_transaction_kills.py --full $(ARGS)

maintenance: $(VENV)/.installed-test
	$(BIN)/python -m pytest tests/clients/test_maintenance.py --full $(ARGS)

spark-kills: $(VENV)/.installed-test
	$(BIN)/python -m pytest tests/broker/spark/test_stream_kills.py tests/broker/spark/test_sink_kills.py --full $(ARGS)

spark-standalone: $(VENV)/.installed-test
	$(BIN)/python -m pytest tests/broker/spark/jobs/test_standalone_cluster.py --full $(ARGS)

spark-steady: $(VENV)/.installed-test
	$(BIN)/python -m pytest tests/broker/spark/test_stream_memory.py --full $(ARGS)

# Without the system's Java, the one that the extra brings from PyPI runs.
spark-demo: $(VENV)/.installed-test
	$(BIN)/python -m benchmarks.spark_demo $(ARGS)

bench: $(VENV)/.installed-bench
	@# A missed floor fails the target, after everything has been measured.
	$(BIN)/python -m benchmarks.hot_path $(ARGS); floors=$$?; \
	$(BIN)/python -m benchmarks.bench_clients $(ARGS) && exit $$floors

bench-client-library: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks.bench_client_library $(ARGS)

bench-report: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks.bench_report --page $(ARGS)

bench-kafka: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks.bench_report --groups start node $(ARGS)

bench-replication: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks.bench_report --groups cluster $(ARGS)

bench-followers: $(VENV)/.installed
	$(BIN)/python -m benchmarks.bench_followers $(ARGS)

bench-moves: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks.bench_moves $(ARGS)

bench-failover: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks.bench_failover $(ARGS)

bench-transactions: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks.bench_transactions $(ARGS)

bench-groups: $(VENV)/.installed
	$(BIN)/python -m benchmarks.bench_groups $(ARGS)

bench-share: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks.share_groups $(ARGS)

bench-quotas: $(VENV)/.installed
	$(BIN)/python -m benchmarks.bench_quotas $(ARGS)

bench-metadata: $(VENV)/.installed
	$(BIN)/python -m benchmarks.bench_metadata $(ARGS)
	$(BIN)/python -m benchmarks.bench_cluster_metadata

bench-loop-holds: $(VENV)/.installed
	$(BIN)/python -m benchmarks.bench_loop_holds $(ARGS)

bench-metrics: $(VENV)/.installed
	$(BIN)/python -m benchmarks.bench_metrics $(ARGS)

bench-test-clusters: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks.bench_test_clusters $(ARGS)

bench-plans: $(VENV)/.installed
	$(BIN)/python -m benchmarks.bench_plans

bench-host-brokers: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks.bench_host_brokers $(ARGS)

bench-tls: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks.bench_tls $(ARGS)

bench-scrub: $(VENV)/.installed
	$(BIN)/python -m benchmarks.bench_scrub $(ARGS)

# In an environment of its own: PySpark has to be of the version of which the connector is on Maven Central.
bench-spark:
	$(MAKE) VENV=.venv-bench-spark .venv-bench-spark/.installed-bench-spark
	.venv-bench-spark/bin/python -m benchmarks.bench_spark $(ARGS)

bench-spark-load: $(VENV)/.installed-test $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks.bench_spark_load $(ARGS)

bench-spark-check: $(VENV)/.installed-test
	$(BIN)/python -m benchmarks.bench_spark_check $(ARGS)

kafka-dump-log: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks.kafka_tools dump-log $(DIR)

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# Dependency groups need pip 25.1.
$(VENV)/.installed: pyproject.toml | $(BIN)/python
	@echo "installing into $(VENV): the first time this downloads packages, which may take minutes"
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.installed-%: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --group $* $(if $(filter bench,$*),$(COMPILER))
	touch $@
