# A script as it is written for the tools in Kafka's bin/. Its output is compared with kafka_tools_session.out.
B="--bootstrap-server $BOOTSTRAP"
ended() { echo "# $1 ended with $?"; }

kafka-topics.sh $B --create --topic orders --partitions 3 --replication-factor 1 --config retention.ms=3600000
ended create
kafka-topics.sh $B --create --topic orders --partitions 3 --replication-factor 1
ended "creating it again"
kafka-topics.sh $B --alter --topic orders --partitions 4
kafka-configs.sh $B --alter --entity-type topics --entity-name orders --add-config max.message.bytes=200000
kafka-configs.sh $B --describe --entity-type topics --entity-name orders
kafka-topics.sh $B --describe --topic orders
kafka-topics.sh $B --list

printf 'k1:one\nk2:two\nk3:three\nk4:four\nk5:\n' |
    kafka-console-producer.sh $B --topic orders --reader-property parse.key=true --reader-property key.separator=:
ended produce
kafka-get-offsets.sh $B --topic orders
kafka-console-consumer.sh $B --topic orders --from-beginning --group tour --max-messages 5 \
    --formatter-property print.key=true --formatter-property print.partition=true \
    --formatter-property print.offset=true --formatter-property print.headers=true | sort

kafka-consumer-groups.sh $B --list
kafka-consumer-groups.sh $B --describe --group tour
kafka-consumer-groups.sh $B --describe --group tour --state
kafka-consumer-groups.sh $B --reset-offsets --group tour --topic orders --to-earliest --dry-run
kafka-consumer-groups.sh $B --reset-offsets --group tour --topic orders:0,3 --shift-by -1 --execute
kafka-consumer-groups.sh $B --describe --group tour
kafka-consumer-groups.sh $B --describe --group missing
ended "describing a group that does not exist"
kafka-consumer-groups.sh $B --delete --group tour

kafka-topics.sh $B --delete --topic orders
ended delete
kafka-topics.sh $B --describe --topic orders
ended "describing a deleted topic"
