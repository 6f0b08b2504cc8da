// Command security_client writes one record with franz-go, reads it, and prints what it has read or why it failed.
//
// Standard input is a JSON object with the fields of settings; standard output is an object with "value" or "error".
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

type settings struct {
	Servers   []string `json:"servers"`
	Topic     string   `json:"topic"`
	Value     string   `json:"value"`
	CA        string   `json:"ca"`
	KeyPair   string   `json:"key_pair"`
	Mechanism string   `json:"mechanism"`
	User      string   `json:"user"`
	Password  string   `json:"password"`
	Token     string   `json:"token"`
	TimeoutMs int64    `json:"timeout_ms"`
}

func main() {
	var given settings
	if err := json.NewDecoder(os.Stdin).Decode(&given); err != nil {
		panic(err)
	}
	answer := map[string]string{}
	if value, err := writeAndRead(given); err != nil {
		answer["error"] = err.Error()
	} else {
		answer["value"] = value
	}
	if err := json.NewEncoder(os.Stdout).Encode(answer); err != nil {
		panic(err)
	}
}

func writeAndRead(given settings) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(given.TimeoutMs)*time.Millisecond)
	defer cancel()
	options, err := given.options()
	if err != nil {
		return "", err
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return "", err
	}
	defer client.Close()
	if err := client.Ping(ctx); err != nil {
		return "", err
	}
	record := &kgo.Record{Topic: given.Topic, Value: []byte(given.Value)}
	if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
		return "", err
	}
	for {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return "", err
		}
		for _, found := range fetches.Records() {
			if string(found.Value) == given.Value {
				return given.Value, nil
			}
		}
		if ctx.Err() != nil {
			return "", errors.New("the record was not read in time")
		}
	}
}

func (given settings) options() ([]kgo.Opt, error) {
	options := []kgo.Opt{
		kgo.SeedBrokers(given.Servers...),
		kgo.ConsumeTopics(given.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.RequestRetries(1),
	}
	if given.CA != "" {
		config, err := given.tls()
		if err != nil {
			return nil, err
		}
		options = append(options, kgo.DialTLSConfig(config))
	}
	if mechanism := given.mechanism(); mechanism != nil {
		options = append(options, kgo.SASL(mechanism))
	}
	return options, nil
}

func (given settings) tls() (*tls.Config, error) {
	pem, err := os.ReadFile(given.CA)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(pem)
	if given.KeyPair != "" {
		pair, err := tls.LoadX509KeyPair(given.KeyPair, given.KeyPair)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

func (given settings) mechanism() sasl.Mechanism {
	switch given.Mechanism {
	case "PLAIN":
		return plain.Auth{User: given.User, Pass: given.Password}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: given.User, Pass: given.Password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: given.User, Pass: given.Password}.AsSha512Mechanism()
	case "OAUTHBEARER":
		return oauth.Auth{Token: given.Token}.AsMechanism()
	}
	return nil
}
