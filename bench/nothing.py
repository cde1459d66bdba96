"""How far the labels of results can be relied on: of right answers, and of questions about nothing there.

Each setting is a store of about 1,000 notes. Of answerable questions it is counted how often their note is
among the first five, and how many of these are called likely or strong; of questions about nothing, how many
get a likely and a strong result. AUC is the chance that the best result of an answerable question is more
relevant than that of one about nothing.
"""

from __future__ import annotations

import json
import lzma
import random
import re
import tempfile
import time
from contextlib import closing
from datetime import datetime, timedelta
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bench import retrieval, scoring
from vademecum.memory import Memory, connect
from vademecum.text.document import escape
from vademecum.types import Origin

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence

SIZE = 1_000  # notes in a store
ASKED = 100  # questions of a kind
FIRST = 5  # results that are looked at
START = datetime(2024, 3, 4, 9)


class Asked(NamedTuple):
    """An answerable question, and the notes that answer it: one of them is enough."""

    text: str
    gold: frozenset[str]


class Setting(NamedTuple):
    """A store, as sessions of notes with their ids, and what is asked of it."""

    name: str
    sessions: Sequence[Sequence[tuple[str, str]]]
    answerable: Mapping[str, Sequence[Asked]]
    nothing: Mapping[str, Sequence[str]]


# ---------------------------------------------------------------- notes of our own
# What notes are filled with. What stands after the lone bar is in no note and is asked about.

_FILLERS = {
    "who": """Amara Anton Beatriz Bogdan Callum Chidi Dalia Darya Edwin Eleni Farid Fiona Gareth Giulia
    Hamza Hannah Ilse Imran Jasper Jelena Kaito Katrin Lars Leila Magnus Marisol Nadia Nikhil Odile
    Omar Petra Pilar Quentin Rafael Rosalind Samira Stefan Tamsin Theo Ursula Viktor Wanda Xavier
    Yasmin Yusuf Zofia Agnes Bruno Cyril Dorota Emil Freya Goran Hilde Anneke Arjun Beata Benedikt
    Carmen Casimir Daphne Dmitri Elif Enzo Faye Fergus Gemma Gustav Hiroshi Henrike Isolde Ivo
    Janina Jorge Kamila Kofi Lidia Luca Maeve Mateo Nilufar Noor Orla Oskar Paloma Pavel Renske
    Ronan Sanne Silvio Thandi Tobias Ulrike Valentin Vesna Wilhelm Ximena Yannick Zainab Zoltan |
    Alistair Bianca Cosmin Delphine Ezra Florian Greta Hector Ingrid Joaquin Kirsten Lorenzo Mirela
    Nestor Oksana""",
    "service": """billing checkout search ingest ledger mailer scheduler gateway catalogue thumbnailer
    exporter reporting sessions invoicing shipping returns loyalty recommendations onboarding
    webhooks moderation translation geocoder pricing inventory fraud archiver notifier proxy
    uploader | wallet telemetry coupons matchmaking transcoder referral voting payroll subscriptions
    livechat""",
    "store": """Postgres|MySQL|Redis|SQLite|MongoDB|Cassandra|DynamoDB|ClickHouse|CockroachDB|Elasticsearch
    |Neo4j|etcd|MariaDB|DuckDB|InfluxDB|ScyllaDB""",
    "tool": """Terraform Ansible Jenkins Buildkite Grafana Datadog Sentry Kafka RabbitMQ NATS Bazel
    Poetry Vite Webpack Tailwind Storybook Playwright Cypress Airflow Dagster Prefect Snowflake
    Databricks Looker Metabase Vault Consul Istio Envoy Traefik Helm ArgoCD Flux Renovate SonarQube
    Figma Linear Notion Slack Zendesk | Pulumi Celery Temporal Honeycomb Mixpanel Superset Nomad
    Tekton Docusaurus Svelte Kibana Splunk Auth0 Cloudflare Intercom""",
    "vendor": """Adyen Stripe Twilio Mailgun Algolia Mapbox Plaid Okta Zapier Contentful Shippo Segment
    Braze DocuSign HubSpot Salesforce Xero Gusto | Klarna SendGrid Pusher Workday Marketo Avalara""",
    "project": """Heron Juniper Obsidian Lantern Marzipan Tundra Saffron Pelican Quartz Nimbus
    Driftwood Cobalt Foxglove Basalt Orchid Thistle Kestrel Mulberry | Falcon Granite Magnolia
    Sparrow Cedar Topaz""",
    "customer": """Northwind|Halvorsen Logistics|Brightwater Clinics|the city of Graz|Montclair
    Hotels|Ostrava Steel|Pinehurst School District|Tallinn Airport|Verdant Foods|Wexford
    Insurance|Aurora Dental|Calder Rail""",
    "cause": """a certificate had expired|the disk filled up with logs|a migration held a lock on the
    orders table|two nodes disagreed on the clock|a bad regular expression used up the processor|the
    connection pool ran dry|a rollout skipped the canary|the cache was flushed at noon|a cron job
    started twice|someone removed a feature flag too early|the name server answered with old
    records|memory leaked in the image parser""",
    "fix": """rolling back|adding an alert|doubling the pool|pinning the version|writing a
    runbook|raising the limit|moving the job to the night|turning retries off""",
    "reason": """it was too costly per seat|nobody on call knew it|the licence forbids hosting it
    ourselves|it could not be run offline|the upgrade path was unclear|it lost messages in our
    test|the sales team kept pushing|its client for Python is abandoned|it needs a cluster of its
    own|latency doubled""",
    "component": """login page|pdf renderer|rate limiter|search box|admin console|iOS app|Android
    app|public website|style guide|load tests|data warehouse|on-call rota|feature flags|build
    cache|error budget|API documentation|staging cluster|backup jobs|password vault|email templates
    | barcode scanner|chat widget| loyalty card printer|kiosk firmware|voice assistant|browser
    extension""",
    "food": """peanuts shellfish gluten lactose strawberries aubergine coriander mushrooms celery
    sesame soy walnuts mango kiwi mustard garlic""",
    "ache": """a rash|swollen lips|a headache|cramps|hives|a sore throat""",
    "hobby": """rowing|bouldering|pottery|beekeeping|fencing|birdwatching|woodcarving|salsa|kayaking|
    calligraphy|archery|knitting|surfing|astronomy|judo|restoring clocks|singing in a choir|playing the
    cello|repairing bicycles""",
    "city": """Lisbon Ghent Kraków Bergen Porto Salzburg Utrecht Seville Tartu Bologna Leeds Aarhus
    Lyon Galway Dresden Basel Zagreb Malmö Verona Bristol Nantes Turku Bilbao Split Cork Riga |
    Osaka Nairobi Montevideo Hanoi Reykjavik Denver Marrakesh Adelaide Tbilisi Santiago""",
    "book": """Middlemarch|The Left Hand of Darkness|Wolf Hall|The Name of the Rose|Gilead|Stoner|The
    Remains of the Day|Austerlitz|Piranesi|Never Let Me Go|Pachinko|Circe|The Leopard|A Month in the
    Country""",
    "pet": """beagle tabby parrot tortoise greyhound poodle hamster rabbit dachshund canary ferret
    spaniel""",
    "call": """Biscuit Miso Pepper Waffles Nimue Otto Clementine Ziggy Truffle Bandit Olive Dumpling""",
    "car": """Skoda Octavia|Fiat Panda|Volvo estate|Renault Zoe|Toyota Yaris|Mini Cooper|VW camper
    van|Dacia Duster|Kia Niro|Honda Jazz""",
    "part": """clutch|timing belt|brake pads|exhaust|left headlamp|alternator|windscreen|radiator""",
    "present": """a cast iron pan|a fountain pen|a telescope|hiking poles|a hammock|a record
    player|noise cancelling headphones|a sourdough starter|an atlas of 1912|a ukulele""",
    "job": """backend engineer|data analyst|product designer|site reliability engineer|technical
    writer|support lead|security engineer|mobile developer|accountant|office manager""",
    "month": "January February March April May June July August September October November December",
    "number": " ".join(
        str(each) for each in (3, 5, 8, 12, 15, 20, 25, 30, 40, 45, 60, 75, 90, 120, 250, 400)
    ),
    "day": " ".join(str(each) for each in range(2, 29)),
    "dose": "5 10 20 25 50 100 200",
    "drug": """ibuprofen metformin levothyroxine sertraline omeprazole cetirizine amlodipine
    atorvastatin""",
    "sport": """half marathon|triathlon|cycling tour|swim across the lake|chess tournament|ten
    kilometre run""",
    "school": """physics chemistry Latin geography algebra drama woodwork economics""",
}

# Notes, and questions that say it partly in other words.
_FRAMES: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (
        (
            "The {service} service keeps its state in {store}; {who} chose it in {month} over {store2}.",
            "{service}: all rows live in {store} now, {who} finished the move in {month}.",
        ),
        ("Which database does {service} use?", "Where does the {service} service hold its data?"),
    ),
    (
        (
            "Outage of {service} in {month}, {number} minutes: {cause}. {who} ended it by {fix}.",
            "Postmortem for {service}: {cause}, {number} minutes of errors. Follow-up by {who}: {fix}.",
        ),
        ("Why was {service} unavailable?", "What made {service} go down, and how was it solved?"),
    ),
    (
        (
            "{project} must ship by {day} {month}, or {customer} may walk away from the contract.",
            "Deadline for {project} is the end of {month}; {customer} was told so by {who}.",
        ),
        ("When is {project} due?", "By which date do we have to deliver {project}?"),
    ),
    (
        (
            "Requests to {vendor} time out after {number} seconds; {who} lowered it when {cause}.",
            "We give {vendor} {number} seconds to answer before {service} tries again.",
        ),
        ("How long do we wait for {vendor}?", "What is the {vendor} timeout?"),
    ),
    (
        (
            "{who} looks after the {component} now that {who2} moved to {city}.",
            "Ask {who} about the {component}; {who2} only reviews.",
        ),
        ("Who is responsible for the {component}?", "Who owns the {component}?"),
    ),
    (
        (
            "We decided against {tool}: {reason}. {tool2} stays for another year.",
            "{tool} was dropped after the trial in {month}, since {reason}.",
        ),
        ("Why did we not adopt {tool}?", "What was the argument against {tool}?"),
    ),
    (
        (
            "{tool} was upgraded to {number}.{dose} in {month}; {who} rewrote the {component} for it.",
            "We pin {tool} at {number}.{dose}, as newer ones broke the {component}.",
        ),
        ("Which version of {tool} do we run?", "What release of {tool} are we on?"),
    ),
    (
        (
            "{vendor} raised the price to {number} thousand euros a year; {who} negotiates until {month}.",
            "The contract with {vendor} runs out in {month} and costs {number} thousand.",
        ),
        ("What do we pay {vendor}?", "How expensive is {vendor} per year?"),
    ),
    (
        (
            "Interviewed {who} for the {job} role in {city}: strong on systems, will start in {month}.",
            "{who} joins us as {job} from {month}, working from {city}.",
        ),
        ("What position did we hire {who} for?", "When does {who} begin working here?"),
    ),
    (
        (
            "{who} cannot eat {food}: it gives them {ache}.",
            "Careful when cooking for {who}, {food} means {ache}.",
        ),
        ("What is {who} allergic to?", "Is there anything {who} must not be served?"),
    ),
    (
        (
            "{who} spends most weekends {hobby} near {city}.",
            "{who} took up {hobby} after moving to {city}, and wants company.",
        ),
        ("What does {who} do in their free time?", "Which hobby has {who} taken up?"),
    ),
    (
        (
            "{who}'s birthday is on {day} {month}; last time we gave {present}.",
            "For {who} who turns {number} in {month}: {present}, already ordered.",
        ),
        ("When was {who} born?", "What gift are we giving {who}?"),
    ),
    (
        (
            "Trip to {city} in {month}: train at {day} past eight, a room for {number} euros, {who} comes.",
            "In {city} we stayed {number} days with {who}, and would go again in {month}.",
        ),
        ("What are the travel plans for {city}?", "Who went with us to {city}?"),
    ),
    (
        (
            "{who} lent me {book}; give it back before {month}.",
            "Reading {book} on the advice of {who}, about {number} pages left.",
        ),
        ("Which novel did {who} recommend?", "What book have I borrowed from {who}?"),
    ),
    (
        (
            "{who} has a {pet} called {call}, adopted in {city}.",
            "{call} is {who}'s {pet}; it needs food twice a day when they are away.",
        ),
        ("What animal does {who} keep?", "What is the name of {who}'s pet?"),
    ),
    (
        (
            "The {car} of {who} needs a new {part}; the garage in {city} asks {number} euros.",
            "{who} sold the {car} in {month}, after the {part} failed again.",
        ),
        ("What is wrong with {who}'s car?", "Which vehicle does {who} drive?"),
    ),
    (
        (
            "{who} takes {dose} mg of {drug} every morning since {month}.",
            "The doctor put {who} on {drug}, {dose} mg, to be checked in {month}.",
        ),
        ("What medicine is {who} on?", "What was prescribed to {who}?"),
    ),
    (
        (
            "{who} is training for a {sport} in {city} this {month}.",
            "{who} finished the {sport} in {city} in {number} minutes less than planned.",
        ),
        ("What competition is {who} preparing for?", "Which race did {who} take part in?"),
    ),
    (
        (
            "{who} gives lessons in {school} to the daughter of {who2}, in {month} evenings.",
            "{who} teaches {school} at the evening school in {city}.",
        ),
        ("Which subject does {who} teach?", "What can {who} tutor my son in?"),
    ),
)

# Written one by one, without a pattern: a note, and how somebody who forgot its words would ask.
_WRITTEN = (
    (
        "The spare key hangs behind the boiler in the cellar.",
        "Where did I hide the second house key?",
    ),
    (
        "Our wifi at the cabin is called Elchgeweih and the code hangs on the fridge.",
        "What is the network name at the cabin?",
    ),
    (
        "The dishwasher drips at the door; the fitter comes on Tuesday at nine.",
        "When will somebody repair the dishwasher?",
    ),
    (
        "Rule for the team: no deploys after three on a Friday.",
        "Are we allowed to release on Friday afternoon?",
    ),
    (
        "The tax office wants the form by the end of May, our adviser is Mrs Ottesen.",
        "Who helps us with taxes?",
    ),
    (
        "Dentist: two fillings on the left, next check in half a year.",
        "What did the dentist find?",
    ),
    (
        "Branch names start with the ticket number, then a short verb phrase.",
        "How should I name a git branch?",
    ),
    (
        "The apple tree was cut back in February and should bear again in two years.",
        "When did we prune the tree in the garden?",
    ),
    (
        "Feature flags older than ninety days are removed by whoever finds them.",
        "How long may a feature flag live?",
    ),
    (
        "I sleep badly after coffee later than two in the afternoon.",
        "How late can I drink coffee?",
    ),
    (
        "Maths homework is collected on Thursdays by Mr Pfeiffer.",
        "On which day must the maths exercises be handed in?",
    ),
    (
        "The attic window sticks when it rains; push from below.",
        "How do you open the window upstairs?",
    ),
    (
        "Timestamps are stored in UTC and shown in the reader's own zone.",
        "Which time zone do we save dates in?",
    ),
    (
        "Nightly builds run at 02:30 and take about fifty minutes.",
        "What time does the nightly build start?",
    ),
    (
        "The neighbours water our plants in July, we feed their cat in August.",
        "Who takes care of the plants while we are away in summer?",
    ),
    (
        "Never retry a payment without an idempotency key.",
        "What must be set before repeating a payment?",
    ),
    (
        "Shoe size of the twins: 31 and 32 since spring.",
        "What size of shoes do the twins wear?",
    ),
    (
        "Logs are kept for fourteen days, audit events for seven years.",
        "How long do we retain logs?",
    ),
    (
        "The boiler pressure must stay between one and one and a half bar.",
        "What pressure should the heating have?",
    ),
    (
        "Code owners must approve any change under the payments folder.",
        "Who has to sign off on changes to payments?",
    ),
    (
        "The piano is tuned twice a year by old Mr Lindqvist.",
        "Who tunes our piano?",
    ),
    (
        "My blood group is A negative, says the card in the wallet.",
        "What blood type do I have?",
    ),
    (
        "Lunch on Wednesdays is paid by the company, up to fifteen euros.",
        "When does the firm buy us lunch?",
    ),
    (
        "We write error messages as what happened, then what to try.",
        "How should an error message be worded?",
    ),
    (
        "The bike lock opens with the year of the moon landing.",
        "What is the combination of the bicycle lock?",
    ),
    (
        "Dad's hearing aid takes size 312 batteries.",
        "Which batteries does my father's hearing aid need?",
    ),
    (
        "The design review is open to everyone and happens every second Tuesday.",
        "How often is there a design review?",
    ),
    (
        "On-call gets a day off after a week with night alarms.",
        "What compensation is there for being on call?",
    ),
    (
        "The recycling bin goes out on odd weeks, the grey one on even.",
        "In which weeks is recycling collected?",
    ),
    (
        "Unit tests may not touch the network; integration tests carry a marker.",
        "Can a unit test use the network?",
    ),
    (
        "The violin is insured for four thousand, the receipt is in the blue folder.",
        "How much is the violin insured for?",
    ),
    (
        "Swimming pool closes for cleaning in the first week of September.",
        "When is the pool shut?",
    ),
    (
        "The mobile app supports the two latest versions of each system.",
        "Which phone versions do we support?",
    ),
    (
        "The babysitter charges fourteen an hour and brings her own car.",
        "What does the babysitter cost?",
    ),
    (
        "Every table has created and updated columns, set by the database.",
        "Which columns must each table have?",
    ),
    (
        "We lost the deposit for the tent because of the wine stain.",
        "Why did we not get the tent deposit back?",
    ),
    (
        "The passports run out in October next year.",
        "When do our passports expire?",
    ),
    (
        "Choir rehearsal moved from the church to the town hall.",
        "Where does the choir practise now?",
    ),
)

# Not one word in common: only the meaning can tell.
_OTHER_WORDS = (
    (
        "Grandma's lasagne: no bechamel, but two layers of spinach and a lot of nutmeg.",
        "What goes into my grandmother's pasta bake?",
    ),
    (
        "We back up the photos every Sunday to the disk in the wardrobe.",
        "Where are copies of our pictures kept?",
    ),
    (
        "The mortgage is fixed at 2.1 percent until 2031.",
        "What interest do we pay on the house loan?",
    ),
    (
        "All money amounts are integers in cents; floats are rejected in review.",
        "How do we represent prices in code?",
    ),
    (
        "The lift in our building takes at most six people.",
        "How many persons fit in the elevator?",
    ),
    (
        "Mum prefers to be called before eight in the evening.",
        "When is it best to phone my mother?",
    ),
    (
        "The sofa fabric is Harris tweed, colour moss, from the shop on Canal Street.",
        "Which material is our couch covered with?",
    ),
    (
        "I signed up for Portuguese lessons on Monday nights.",
        "Which language am I learning?",
    ),
    (
        "Paint in the hallway: Farrow and Ball, Skimming Stone, half a tin left.",
        "What colour are the walls of the corridor?",
    ),
    (
        "Our landlord is the Bergmann family, rent is due on the third.",
        "Who is the owner of our flat?",
    ),
    (
        "I want my ashes scattered on the north beach.",
        "What are my wishes for the funeral?",
    ),
    (
        "Sourdough: feed at eight, shape at noon, bake at 240 degrees.",
        "How hot must the oven be for the bread?",
    ),
)


def _questions(text: str) -> list[str]:
    return [f"{' '.join(each.split())}?" for each in text.split("?")[:-1]]


# The same life and the same trade, but nothing of it is in any note.
_ABSENT = _questions(
    """
    How do I descale the coffee machine? Which gym did I sign up for? What is our policy on remote work?
    Who won the table football cup at the office? Where is the fire extinguisher? What was the score of
    the security audit? Which podcast episode did I want to hear? How much did the solar panels cost?
    What is the ISBN of the cookbook? Do we have a disaster recovery drill this quarter? What is my
    frequent flyer number? When was the chimney last swept? How do we rotate the signing keys? Which
    wine did we serve at the wedding? What tattoo did my brother get? Where did I park the trailer? What
    is the retirement age in my pension plan? Which font does the logo use? What did the vet say about
    vaccinations? Who keeps the minutes of the works council? How many vacation days carry over? Which
    keyboard layout do I prefer? What is the maximum upload size for attachments? When is the cleaning
    lady on holiday? How did the chess club vote on membership fees? What is the serial number of the
    printer? Which crypto wallet do I own? What was the name of the hotel with the rooftop bar? Did the
    tenants complain about mould? How is the trampoline assembled? Which accessibility standard do we
    follow? What are the opening hours of the library? How tall is the Christmas tree allowed to be?
    Which karate belt does my nephew have? What is our accessibility statement's review cycle? Where can
    I buy spare vacuum bags? Which SSL cipher suites are disabled? How many stitches did I need after
    the fall? What is the Wi-Fi password of the café? When did we last change the mattress? Who
    translated the user manual into Japanese? What is the plan for the kitchen extension? Which GPU do
    we train models on? What allergies does the au pair have? How do I reset the thermostat? Where did
    we store the ski boots? Which accountant audited the charity? What did the judge decide about the
    fence? How large is the marketing team? Which perfume does my aunt like?
    """
)

_ELSEWHERE = _questions(
    """
    What is the boiling point of mercury? Who painted the ceiling of the Sistine Chapel? How do black
    holes evaporate? What caused the fall of the Roman Republic? Which enzyme unwinds DNA during
    replication? Who was the first emperor of China? How does a jet engine produce thrust? What is the
    capital of Burkina Faso? Which treaty ended the Thirty Years War? How do vaccines create immunity?
    What are the rules of offside in football? Who composed the Brandenburg concertos? What is the
    mating ritual of the albatross? How deep is the Mariana Trench? Which philosopher wrote the Critique
    of Pure Reason? What is the half-life of carbon-14? Why is the sky blue? How do glaciers form
    moraines? Which vitamin prevents scurvy? What is the plot of Hamlet? Who discovered penicillin? How
    are diamonds formed in the mantle? What is the tallest mountain in Africa? Which dynasty built the
    Great Wall? How does photosynthesis convert light to sugar? What is a Fourier transform? Who led the
    Haitian revolution? Which planets have rings? What language is spoken in Suriname? How do bats
    echolocate? What are tectonic plates made of? Who wrote the Tale of Genji? What is the Riemann
    hypothesis? How did the Black Death spread across Europe? Which element has the symbol W? What is
    the lifespan of a blue whale? How do octopuses change colour? What happened at the Congress of
    Vienna? Which gas makes up most of the atmosphere of Venus? Who invented the movable type printing
    press? What is the difference between igneous and metamorphic rock? How does insulin regulate
    glucose? Which country hosted the 1936 Olympics? What is the function of the mitochondria? How was
    the pyramid of Giza constructed? Who was assassinated at Ford's Theatre? What is the doctrine of
    judicial review? How do antibiotics kill bacteria? Which river flows through Baghdad? What is
    quantum entanglement? How many bones are in the human skull? Who founded the Mongol Empire? What is
    the chemical formula of sulfuric acid? How do hurricanes get their energy? Which artist cut off his
    own ear? What is the Treaty of Tordesillas? How do salmon find their spawning grounds? What is the
    speed of sound in water? Who was the last tsar of Russia? How is aluminium extracted from bauxite?
    Which Greek god ruled the underworld? What causes the northern lights? How do neurons transmit
    signals? Who formulated the laws of planetary motion? What is the Gini coefficient? Which desert is
    the driest on Earth? How did trench warfare change tactics? What is the melting temperature of
    tungsten? Who wrote Don Quixote? How do coral reefs bleach? What is habeas corpus? Which mammal lays
    eggs? How are comets different from asteroids? What is the Doppler effect? Who unified Italy in the
    nineteenth century? How do volcanoes create islands? What is the national animal of Scotland? Which
    hormone controls metabolism? How was radium discovered? What is the meaning of the Rosetta Stone?
    Who was the mother of Alexander the Great? How does inflation erode sovereign debt? What is the
    Krebs cycle? Which battle ended Napoleon's rule? How do whales communicate? What is a sonnet's rhyme
    scheme? Who proposed the heliocentric model? How do enzymes lower activation energy? What is the
    largest moon of Saturn? Which ocean current warms Europe? How was the Suez Canal financed? What is
    the placebo effect? Who was the first woman in space? How do termites digest wood? What is the Pauli
    exclusion principle? Which king signed the Magna Carta? How do cacti survive drought? What is a
    neutron star? Who built the Taj Mahal? How is steel made in a blast furnace?
    """
)


def own(size: int = SIZE) -> Setting:
    """A team's and a family's notes from patterns, with some written singly, and what is asked of them."""
    chance = random.Random(7)
    inside, outside = _fillers()
    written = [*_WRITTEN, *_OTHER_WORDS]
    notes: dict[str, str] = {f"written {at}": note for at, (note, _) in enumerate(written)}
    asked = [Asked(question, frozenset({f"written {at}"})) for at, (_, question) in enumerate(written)]
    same, other = asked[: len(_WRITTEN)], asked[len(_WRITTEN) :]
    patterns: list[Asked] = []
    absent: list[str] = []
    drawn = [
        (frame, first, value)
        for frame, (_, questions) in enumerate(_FRAMES)
        for first in _slots(questions[0])
        for value in inside[first]
    ]
    chance.shuffle(drawn)
    while len(notes) < size:
        frame, first, value = drawn[len(notes) % len(drawn)]
        id_ = f"{frame} {value}"
        if id_ in notes:  # said a second time: about the same thing, so another answer to the same question
            id_ = f"{id_} again"
        notes[id_] = _fill(chance.choice(_FRAMES[frame][0]), inside, chance, {first: value})
    for frame, first, value in drawn:
        gold = frozenset({f"{frame} {value}", f"{frame} {value} again"}.intersection(notes))
        if gold:
            question = chance.choice(_FRAMES[frame][1]).replace(f"{{{first}}}", value)
            patterns.append(Asked(question, gold))
    for _, questions in _FRAMES:
        first = _slots(questions[0])[0]
        absent += [
            question.replace(f"{{{first}}}", value) for question, value in product(questions, outside[first])
        ]
    sessions = [[each] for each in notes.items()]
    chance.shuffle(sessions)
    nothing = {
        "same field": [*_ABSENT, *chance.sample(absent, ASKED - len(_ABSENT))],
        "another field": _ELSEWHERE,
    }
    answerable = {"": [*same, *chance.sample(patterns, ASKED - len(same))], "in other words": other}
    return Setting("our own", sessions, answerable, nothing)


def _fillers() -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    inside, outside = {}, {}
    for name, text in _FILLERS.items():
        used, _, unused = " ".join(text.split()).partition(" | ")
        inside[name], outside[name] = _values(used), _values(unused)
    return inside, outside


def _values(text: str) -> list[str]:
    """Lines of words, or of phrases with a bar between them."""
    if "|" not in text:
        return text.split()
    return [" ".join(each.split()) for each in text.split("|")]


def _slots(pattern: str) -> list[str]:
    return re.findall(r"\{(\w+)\}", pattern)


def _fill(
    pattern: str, values: Mapping[str, Sequence[str]], chance: random.Random, given: dict[str, str]
) -> str:
    chosen = dict(given)
    for slot in _slots(pattern):
        if slot not in chosen:
            kind = slot.rstrip("2")
            chosen[slot] = chance.choice([each for each in values[kind] if each not in chosen.values()])
    return pattern.format_map(chosen)


# ---------------------------------------------------------------- public data


def locomo(path: Path) -> Iterator[Setting]:
    """Pairs of conversations; nothing: what is asked of others, whose people are not in this store."""
    cases = list(retrieval.locomo(path))
    people = [_people(case) for case in cases]
    claims = _claims(path)
    for number in range(0, len(cases), 2):
        inside = cases[number : number + 2]
        names = people[number] | people[number + 1]
        chance = random.Random(number)
        sessions = [
            [(f"{place}/{id_}", text) for id_, text in zip(document.turn_ids, document.turns, strict=True)]
            for place, case in enumerate(inside)
            for document in case.documents
        ]
        questions = [
            Asked(each.text, frozenset(f"{place}/{turn}" for turn in each.turns))
            for place, case in enumerate(inside)
            for each in case.questions
        ]
        others = [
            each.text
            for case, named in zip(cases, people, strict=True)
            if case not in inside
            for each in case.questions
            if (named_here := _names(each.text) & named) and not named_here & names
        ]
        share = ASKED * 2 // len(cases)
        nothing = {
            "other people": chance.sample(others, share),
            "another field": chance.sample(claims, share),
        }
        yield Setting("LoCoMo", sessions, {"": chance.sample(questions, share)}, nothing)


def longmemeval(path: Path) -> Iterator[Setting]:
    """Two stores of half the questions' own sessions each; nothing: the questions of the other half."""
    path = path / "longmemeval/longmemeval_s_dev.json.xz" if path.is_dir() else path
    raw = json.loads(lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes())
    raw = [each for each in raw if not each["question_id"].endswith("_abs")]
    random.Random(1).shuffle(raw)
    claims = _claims(path.parent.parent)
    for half in (0, 1):
        sessions: list[list[tuple[str, str]]] = []
        questions: list[Asked] = []
        texts: set[str] = set()
        for each in raw[half::2]:
            if sum(map(len, sessions)) >= SIZE:
                break
            gold: set[str] = set()
            found = dict(zip(each["haystack_session_ids"], each["haystack_sessions"], strict=True))
            for id_ in each["answer_session_ids"]:
                notes = [
                    (f"{id_}/{at}", f"{said['role']}: {said['content']}")
                    for at, said in enumerate(found[id_])
                ]
                gold.update(
                    note[0] for note, said in zip(notes, found[id_], strict=True) if said.get("has_answer")
                )
                if notes[0][1] not in texts:
                    sessions.append(notes)
                    texts.add(notes[0][1])
            if gold:
                questions.append(Asked(each["question"], frozenset(gold)))
        nothing = [
            each["question"]
            for each in raw[1 - half :: 2]
            if not any(
                f"{session[0]['role']}: {session[0]['content']}" in texts
                for id_, session in zip(each["haystack_session_ids"], each["haystack_sessions"], strict=True)
                if id_ in each["answer_session_ids"]
            )
        ]
        fields = {"another person": nothing, "another field": claims[half::2][: ASKED // 2]}
        yield Setting("LongMemEval", sessions, {"": questions}, fields)


def scifact(path: Path) -> Iterator[Setting]:
    """Abstracts as notes; nothing: claims whose abstracts were left out, and questions of everyday life."""
    case = next(iter(retrieval.scifact(path)))
    chance = random.Random(3)
    questions = chance.sample(list(case.questions), 2 * ASKED)
    parts, others = questions[:ASKED], questions[ASKED:]
    gold = {id_ for each in parts for id_ in each.documents}
    hidden = {id_ for each in case.questions for id_ in each.documents} - gold
    rest = [each for each in case.documents if each.id not in gold | hidden]
    chosen = [each for each in case.documents if each.id in gold]
    chosen += chance.sample(rest, SIZE - len(chosen))
    chance.shuffle(chosen)
    notes = [[(each.id, f"{each.title}\n\n{each.turns[0]}")] for each in chosen]
    everyday = [each.text for one in retrieval.locomo(path) for each in one.questions]
    nothing = {
        "claims left out": [each.text for each in others if not gold & set(each.documents)],
        "another field": chance.sample(everyday, ASKED),
    }
    answerable = [Asked(each.text, frozenset(each.documents)) for each in parts]
    yield Setting("SciFact", notes, {"": answerable}, nothing)


def _claims(path: Path) -> list[str]:
    return [each.text for each in next(iter(retrieval.scifact(path))).questions]


def _people(case: retrieval.Case) -> set[str]:
    return {turn.partition(":")[0].split()[0] for each in case.documents for turn in each.turns}


def _names(text: str) -> set[str]:
    return set(re.findall(r"\b[A-Z][a-z]+", text))


SETS = {"locomo": locomo, "longmemeval": longmemeval, "scifact": scifact}


# ---------------------------------------------------------------- the measurement


def arguments(parser: argparse.ArgumentParser) -> None:
    """What can be chosen on the command line."""
    parser.add_argument("--data", type=Path, help="the folder with LoCoMo, LongMemEval and SciFact")
    parser.add_argument("--embedder", default="local", help="the embedder: local or none")


def measure(chosen: argparse.Namespace) -> list[dict[str, object]]:
    """Fill each store, ask it everything, and count."""
    tallies: dict[tuple[str, str], Tally] = {}
    settings = [own()]
    for load in SETS.values() if chosen.data is not None else ():
        settings += load(chosen.data)
    for setting in settings:
        with tempfile.TemporaryDirectory() as name:
            store = Store(Path(name).resolve(), setting, chosen.embedder)
            with closing(store.memory.care.searcher):
                store.ask(setting, tallies)
    return [_row(setting, about, tally, tallies) for (setting, about), tally in tallies.items()]


class Tally:
    """What came of one kind of question, over all stores of a setting."""

    def __init__(self) -> None:
        self.right: list[str] = []  # how right results among the first five were called
        self.best: list[str] = []  # how the best result was called
        self.tops: list[float] = []  # its relevance
        self.found = 0
        self.seconds: list[float] = []


class Store:
    """Notes in files: sessions as journals, single notes as records."""

    def __init__(self, folder: Path, setting: Setting, embedder: str = "local") -> None:
        work = folder / "work"
        work.mkdir()
        environ = {"VADE_EMBEDDER": embedder, "VADE_SWEEP": "off"}
        self.memory: Memory = connect(home=folder / "home", cwd=work, origin=Origin.USER, environ=environ)
        self._ids: dict[tuple[str, int], str] = {}
        when = START
        for number, session in enumerate(setting.sessions):
            if len(session) == 1:
                id_, text = session[0]
                key = f"n{number:04}"
                self.memory.store(text, key=key)
                self._ids[key, 0] = id_
            else:
                self._write_journal(session, when, number)
                when += timedelta(days=3, hours=5)
        self.memory.care.index()

    def _write_journal(self, session: Sequence[tuple[str, str]], when: datetime, number: int) -> None:
        project = self.memory.status().project
        assert project is not None
        journal = self.memory.home.path / "memory" / "project" / project.id / "journal"
        journal.mkdir(parents=True, exist_ok=True)
        text = f"# {when:%Y-%m-%d}\n"
        name = f"{when:%Y-%m-%d}-s{number:03}"
        for id_, note in session:
            text += "\n"
            first = text.count("\n") + 1
            text += f"## {when:%Y-%m-%dT%H:%M:%SZ}\n{escape(note)}\n<!-- origin: user -->\n"
            for line in range(first, text.count("\n") + 2):  # with the blank line after it
                self._ids[name, line] = id_
        (journal / f"{name}.md").write_text(text, newline="")

    def note_at(self, path: str, key: str | None, line: int) -> str:
        """Which note a passage is of."""
        found = self._ids.get((key or "", 0))
        return found if found is not None else self._ids[Path(path).stem, line]

    def ask(self, setting: Setting, tallies: dict[tuple[str, str], Tally]) -> None:
        """Ask everything."""
        for how, answerable in setting.answerable.items():
            tally = tallies.setdefault((setting.name, f"answerable {how}".strip()), Tally())
            for each in answerable:
                self._ask(each, tally)
        for about, questions in setting.nothing.items():
            tally = tallies.setdefault((setting.name, about), Tally())
            for question in questions:
                self._ask(Asked(question, frozenset()), tally)

    def _ask(self, asked: Asked, tally: Tally) -> None:
        begun = time.perf_counter()
        answer = self.memory.search(asked.text)
        tally.seconds.append(time.perf_counter() - begun)
        tally.best.append(answer.match)
        tally.tops.append(max((each.relevance for each in answer.results), default=0.0))
        right = [
            each.match
            for each in answer.results[:FIRST]
            if self.note_at(each.path, each.key, each.end) in asked.gold
        ]
        tally.found += bool(right)
        tally.right += right


def _row(
    setting: str, about: str, tally: Tally, tallies: Mapping[tuple[str, str], Tally]
) -> dict[str, object]:
    answerable = about.startswith("answerable")
    others = [
        top
        for (name, kind), each in tallies.items()
        if name == setting and kind.startswith("answerable")
        for top in each.tops
    ]
    labels = tally.right if answerable else tally.best
    share = {
        "likely or strong": sum(each in ("likely", "strong") for each in labels) / max(1, len(labels)),
        "strong": sum(each == "strong" for each in labels) / max(1, len(labels)),
    }
    return {
        "store": setting,
        "asked": about,
        "n": len(tally.best),
        "right in five": tally.found if answerable else "",
        **{name: round(value, 3) for name, value in share.items()},
        "AUC": "" if answerable else round(scoring.auc(others, tally.tops), 3),
        "p50 ms": round(1000 * sorted(tally.seconds)[len(tally.seconds) // 2], 2),
    }
