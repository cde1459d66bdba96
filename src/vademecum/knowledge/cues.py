"""What a sentence says of itself by its words: the table that signals are read from.

Each cue is a list of phrasings with a weight. Those of a kind speak for keeping a sentence as that kind, those
of a reason speak for declining it. Phrasings are matched in lower case, with `~` for an apostrophe that may be
left out, as people do when they type fast.
"""
# ruff: noqa: E501  # a line is a phrasing; broken in two it would be two

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class SignalKind(StrEnum):
    """What a statement worth keeping is."""

    PREFERENCE = "preference"
    CORRECTION = "correction"
    DECISION = "decision"
    CONTEXT = "context"
    PATTERN = "pattern"


class DeclineReason(StrEnum):
    """Why a sentence is declined."""

    QUESTION = "question"
    SPECULATION = "speculation"
    TRANSIENT = "transient"
    UNCERTAIN = "uncertain"
    REQUEST = "request"
    CHAT = "chat"
    SECRET = "secret"


class Cue(NamedTuple):
    """Phrasings that speak for a kind or a reason, one per line."""

    side: SignalKind | DeclineReason
    weight: float
    why: str
    phrasings: str
    opening: bool = False  # only at the beginning of a sentence, after words like "ok" and "so"


P, C, D, X, R = (
    SignalKind.PREFERENCE,
    SignalKind.CORRECTION,
    SignalKind.DECISION,
    SignalKind.CONTEXT,
    SignalKind.PATTERN,
)
SPECULATION, UNCERTAIN, TRANSIENT = (
    DeclineReason.SPECULATION,
    DeclineReason.UNCERTAIN,
    DeclineReason.TRANSIENT,
)
REQUEST, CHAT = DeclineReason.REQUEST, DeclineReason.CHAT

_DAY = (
    "(?:mon|tues|wednes|thurs|fri|satur|sun)days?|january|february|march|april|june|july|august|september"
    "|october|november|december|q[1-4]|next (?:week|month|quarter|year|release|sprint)|v?\\d+(?:\\.\\d+)*"
)
_THINGS = (
    "(?:answers?|replies|reply|responses?|explanations?|commit messages?|commits|diffs?|comments?|docstrings?"
    "|examples?|snippets?|summaries|tests|names?|variables|functions|classes|bullets?|bullet points|lists"
    "|tables|emojis?|headings?|sentences|paragraphs|plots|charts|figures|logs?|errors?|files|imports|exports"
    "|types|code blocks?|jargon|dates|numbers|units|quotes|links|screenshots|branches|messages|texts?|output"
    "|steps|patches|hunks|one-liners|instructions|changelogs?|changelog entries|semicolons|tabs|spaces"
    "|greetings|apologies|intros?|introductions|filler|preamble|small talk|praise|prose|markdown|code"
    "|layouts|lines|words|letters|titles|captions|colou?rs|queries|loops|comprehensions|abbreviations)"
)

CUES = (
    # ------------------------------------------------------------------ preference
    Cue(
        P,
        4,
        "says what the speaker prefers",
        r"""
        i(?:~d)? (?:\w+ ){0,2}(?:prefer|favou?r)
        i~d (?:\w+ )?(?:rather|sooner)
        (?:gives?|give) me (?:a )?(?:headaches?|the creeps|eye strain)|i get lost|i lose track|i can follow|i can read (?:it|them)|i (?:always )?(?:throw|delete|skip|ignore) (?:them|those|it)
        i would (?:\w+ )?rather
        i(?: really| just| absolutely)? (?:hate|dislike|detest|loathe|love|adore)(?! (?:it|that|this|these|those|the (?:idea|sound|way)|how|your|to)\b)
        (?:hate|love|like) it when|(?:how|the way) i (?:like|want|prefer|read|work|do) (?:it|them|things)|i (?:skim|scan|speed-?read)
        (?:when|if|where) you (?:give|write|answer|show|explain|reply|send|review|name|refactor|generate|summari[sz]e|cite|quote|suggest|propose|change|edit|add|create|commit|rename|move|delete|touch|fix|find|see|translate|draw|plot|test|run|finish) (?:me )?(?!it\b|that\b|this\b)\w+
        i can~?t (?:stand|bear|deal with)
        i (?:like|enjoy) (?:my|to|it when|them|early|short|plain|small) ?
        i like [\w .-]{2,40} (?:better|more|best|over|rather)
        i (?:do not|don~t|never) (?:\w+ )?(?:like|want|need|enjoy|care for|use) (?!to see|it\b|that\b|this\b|you to)
        i~?m (?:not )?(?:a |an )?(?:big |huge |really |more |much |most )*(?:fan|at home|used to|comfortable|allergic|happiest)
        i~?m an? [\w-]+ (?:user|person|guy|learner|reader|speaker)
        i(?:~?m| am) (?:colou?r ?blind|dyslexic|left-handed|blind|deaf)
        my (?:taste|preference|preferred \w+|favou?rite [\w ]{2,30}(?:is|are)|pet peeve)
        pet peeve
        (?:easier|harder|better|nicer|hard|kinder) (?:on|for) (?:me|my \w+)
        (?:kill|drop|no) \w+ like (?:that|this) one|(?:drives me|annoys me|bothers me|bugs me|hurts my eyes|distracts me)
        i find [\w .-]{2,40} (?:easier|harder|clearer|ugly|hard|confusing|annoying|noisy|unreadable|distracting)
        (?:i~d|i would) (?:\w+ )?(?:like|love) (?:you to always|all|every|your)
        (?:works|reads) best for me
        for me,? (?:please|pls)
        when i (?:ask|say|write)
        (?:call|address) me
        i~ll reject
        """,
    ),
    Cue(
        P,
        2.5,
        "says what the speaker wants or is used to",
        r"""
        i (?:always |only |just |mostly |usually )?(?:want|need|expect|like) (?!to (?:see|say|know|check|ask|try|go|do|show|be|get|make)\b|it\b|that\b|this\b|you to\b|the (?:first|second|last|new)\b)
        i (?:always |only |mostly |usually )(?:want|need|expect|use|read|work|write|run)
        i (?:read|pipe|grep|skim|review|print|paste|copy|use|keep|work|write|edit|test|type|run|listen)(?: \w+){0,2} (?:on|through|thru|for|as|at|in|with|from|all) (?:my|a|an|jq|the|day|bookmarks|vim|emacs|\w+)
        in my (?!opinion|view|experience)\w+
        i (?:tend to|usually|always|never|mostly|rarely|seldom) [a-z]+|(?:helps|saves) me|makes my life|not my (?:thing|style|cup)|i don~t mind|i~?m fine with|as (?:few|little) [\w ]{0,20}as possible
        (?:on|in|for) my (?:machine|code|phone|laptop|ts|python|editor|files|texts?|docs|notes|projects|repos?)
        """,
    ),
    Cue(
        P,
        4,
        "asks for something from now on",
        r"""
        from (?:now|here|this point|today) (?:on|onwards?)
        going forward|moving forward|in (?:the )?future|henceforth
        every time you|each time you|any ?time you|whenever you
        by default(?=,)
        please (?:always|never)|always (?:give|show|send|tell|ask|warn) me
        you (?:should|must|can|may) (?:always|never|only)
        , (?:ever|always|every time|each time|everywhere|throughout|in general)\W*$|\bever again
        you (?:can|could|may) (?:drop|skip|leave out|stop|omit|spare me|forget|lose)\b|(?:don~t|no need to) bother (?:with|to)
        """,
    ),
    Cue(
        P,
        3.5,
        "says always or never how to do something",
        r"""
        (?:please |pls )?(?:always|never|only ever) (?!mind|got|seem|had|been|know|knew|the same|thought|worked|heard|verified|seen|tried|used to|happen)[a-z]+
        (?:bitte )?(?:immer|nie|niemals) [a-zäöü]+
        """,
        opening=True,
    ),
    Cue(
        P,
        3,
        "asks for a manner, not for a thing",
        rf"""
        (?:please |pls )?(?:keep|make|leave|format|name|spell|limit|write|put) (?:your |my |all |the |all the )?(?:[a-z-]+ )?{_THINGS} (?:short|brief|small|tiny|concise|terse|simple|plain|lower|upper|\w+case|under|below|to (?:one|two|three|a|\d)|alone|out|untouched|where they|as they|in (?:english|german|french|spanish|plain|past|present|imperative|\w+case)|readable|minimal|focused|separate|flat)
        (?:please |pls )?(?:write|show me|give me|use|send me|put|format|return|include|prefer|make) (?:your |my |all |me )?(?:[a-z-]+ )?{_THINGS} (?:in|as|with|without|w/o|instead of|rather than|not|first|only|like|before|at the|over|by)\b(?! (?:this|that|line)\b)
        (?:please |pls )?(?:avoid|spare me|no need for|stick to|leave out|drop|skip|cut|kill|lose) (?:your |all |any |the usual |unnecessary |long )?(?:[a-z-]+ )?{_THINGS}\b(?! (?:in|for|from|of|to|on|above|below|that i|this) )
        (?:please |pls )?(?:use|write|indent with|stick to|go for) [\w-]+ (?:instead of|rather than|over|not) [\w-]+
        (?:please |pls )?(?:show|give|send) me [\w -]{{2,40}}(?:instead of|rather than|not)
        (?:please |pls )?(?:answer|reply|respond|write to me|talk to me|speak|talk) (?:me )?in (?!the\b|this\b)\w+
        (?:please |pls )?(?:don~t|do not|stop|avoid|quit) (?:\w+ing|\w+) (?:me )?(?:any |unnecessary |the )?{_THINGS}\b
        (?:please |pls )?no (?:more )?(?:[a-z-]+ )?{_THINGS}
        (?:please |pls )no [a-z]+
        spare me (?:the|your|any|all)
        (?:please |pls )?(?:use|format|name|spell|indent|phrase|write) (?!the\b|this\b|that\b|these\b|it\b|an?\b|our\b|its\b|to\b|up\b|down\b|out\b)[a-z-]+(?: [a-z-]+)? (?:spelling|english|style|syntax|quotes|units|notation|format|instead|rather|over|everywhere|wherever|when|in my|in all|in general)\b
        [a-z-]+ (?:over|not|instead of|rather than) [a-z-]+\W*$
        {_THINGS} (?:before|after|first|only|in|without|as)\b(?: \w+){{0,4}},? (?:please|pls|thx|thanks)
        (?:keep|write|leave) (?:it|everything|them) (?:all )?(?:in (?:british|american|plain|simple|\w+ english|german|english|french|spanish)|short|brief|simple|terse|plain|minimal|formal|informal|low-key)
        (?:dark|light|bright) (?:themes?|mode)|metric units|imperial units|iso dates
        ask (?:me )?(?:before|first)
        (?:double|single) quotes|(?:two|four|2|4)[ -]spaces?|tabs,? not
        """,
        opening=True,
    ),
    Cue(
        P,
        2,
        "says how, and politely in general",
        r"""
        no [\w -]{3,40} (?:in my|for me|please|pls|thx|thanks)
        [\w ]+ as [\w ]+ (?:pls|please)\b
        for [\w ]+ (?:give me|i want|i~d like|use) \w+
        code first|explanation (?:first|after)
        one sentence per line
        """,
    ),
    Cue(
        P,
        4,
        "says what the speaker prefers",
        r"""
        ich (?:bevorzuge|mag|hasse|hätte gern|möchte (?:immer|keine?|nur))|mir ist lieber|lieber (?:so|kurz|auf|ohne|mit)
        bitte (?:immer|nie|keine?|nur|künftig|auf deutsch)|ab jetzt|ab sofort (?:bitte|immer)|künftig|in zukunft
        prefiero|no me gustan?|me gustan?|odio|a partir de ahora|de ahora en adelante|siempre que (?:me|respondas)|en adelante
        je préfère|j'aime|je n'aime pas|je déteste|je veux (?:toujours|des)|désormais|dorénavant|à partir de maintenant|à l'avenir
        preferisco|d'ora in poi|prefiro|daqui em diante
        """,
    ),
    Cue(
        P,
        4,
        "says what the speaker prefers",
        r"""
        我(?:更|比较|不|最|很)?(?:喜欢|讨厌|习惯|偏好|倾向)|以后.{0,12}(?:请|都|用|不要|别)|请(?:总是|一直|始终|以后|务必)|从现在(?:起|开始)|今后
        (?:好き|嫌い|苦手)|今後は|これから(?:は|も)|(?:ほう|方)が(?:いい|好み|良い|見やすい)|常に.{0,20}(?:ください|して|お願い)|毎回.{0,20}(?:ください|お願い)|(?:返信|回答|説明|コメント).{0,12}(?:お願い|ください|にして)
        """,
    ),
    # ------------------------------------------------------------------ correction
    Cue(
        C,
        4,
        "contradicts what was said or done",
        r"""
        (?:no|nope|nah|nein|non|naja)[,.:;!] (?!worries|problem|need|thanks|idea)(?=\S+ \S+ \S)
        (?:nope|wait|hm+|oh|ah|er+|um+),? (?:no\b|not\b|that~s (?:not|wrong))
        (?:no|nope),? (?:it|that|this|the|we|they|those|these)\b
        nope th\w*
        not quite[,:.]|close,? but|almost,? but|correction\b|wrong [a-z]+[,:.]|careful[,:]
        wrong (?:file|folder|branch|repo|worktree|table|version|one|place|server|database|column|dir|directory|env|environment|project|package|unit|units|formula|order|direction|name|port)
        (?:sorry|oops|my bad|my mistake)[,:.]? (?:it~?s|the|that|we|i (?:meant|said|wrote)|not)
        """,
        opening=True,
    ),
    Cue(
        C,
        4,
        "contradicts what was said or done",
        r"""
        (?:that|this|it)(?:~s| is| was) (?:wrong|incorrect|not (?:right|correct|true|quite right|the right|how|what|where|why|when|it\b)|backwards|outdated|a misunderstanding)
        (?:that|this|those)(?:~s| is| are) (?:only )?(?:the |an? )?(?:old|outdated|previous|legacy|stale|obsolete|former|deprecated)\b
        (?:that|this) (?:isn~t|wasn~t) (?:right|correct|true|quite right|how|what|where|it\b)
        (?:you~ve|you have|you) (?:got|have|had|read|understood|wrote|spelled) (?:it|that|this|them|the \w+) (?:backwards|wrong|the wrong|upside|mixed)
        you (?:keep|kept|assumed|assume|mixed|misread|misunderstood|confused|treated|forgot|overlooked|got|mislabel\w*|misspell\w*|translated|guessed|hard-?coded|seem to (?:think|assume|believe)|still (?:use|think|write))\b
        you~?(?:re| are) (?:reading|mixing|using|looking at|confusing|thinking of|assuming|treating|conflating|calling|still (?:using|on|calling))
        you (?:apply|put|use|used|wrote|write|call|called|read|took|set|sort|round|count|counted|named) (?:\w+ ){0,5}?(?:wrong|after|as a|as an|as the|the old|instead|twice|but)
        the \w+(?: \w+)? you (?:used|read|wrote|took|picked|found|cited|quoted|opened|linked|have) (?:is|are|was|were)
        stop (?:[a-z]+ing|"\w+")
        i (?:meant|misspoke|mistyped|mixed up|misremembered|was wrong)|i said [\w .]+ before|what i said about|as i (?:wrote|said) (?:earlier|before)|than i (?:said|wrote)
        scratch (?:that|what)|strike that|let me correct
        (?:there~s|there is|there are|we have) no such
        after all[;,.]|after all$
        (?:isn~t|aren~t|not|no longer|is not|are not) [\w .-]{2,40} any ?more
        (?:are|is) not (?:typos?|bugs?|mistakes?|errors?)
        on purpose|by design,? not|is intentional|are intentional
        the (?:other|wrong) way (?:round|around)|\bbackwards:
        contrary to what
        das stimmt nicht|das ist falsch|stimmt nicht|sondern|nicht [\wäöüß. ]{2,30}, sondern|falsch:|eso no es|no es [\w ]{2,30}, (?:es|sino)|\bsino\b|en realidad|ce n'est pas|c'est faux|en fait,?|pas [\w ]{2,20} mais
        """,
    ),
    Cue(
        C,
        4,
        "contradicts what was said or done",
        r"""
        不对|不是.{1,20}(?:是|而是)|是.{1,20}不是|错了|搞错|弄错|应该是.{1,20}不是|其实
        違います|ではなく|じゃなくて|間違|正しくは|実は
        """,
    ),
    Cue(
        C,
        2.5,
        "sets one thing against another",
        r"""
        actually,? (?:it|the|that|we|our|this|they|those|there|\w+ (?:is|are|uses|runs|has|lives))(?:~s)?\b
        (?:(?:is|are|was|were)(?:n~t| not)|(?:it|that)~s not) [\w .:/-]{2,60}[,;:.] ?(?:it|they|that|the|but|we|only|just|simply|he|she)(?:~s|~re)?\b
        you~ve been \w+ing|you have been \w+ing
        (?:doesn~t|don~t|does not|do not) [\w .:/-]{2,60}[,;] ?(?:it|they|but|we)(?:~s|~re)?\b
        (?:is|are|~s|runs|lives|means|has|have|uses|called|named|goes|in|on|at|with|by|reports|returns|takes|expects|wants|gives|needs|sends|writes|reads|counts|starts|begins) [\w .:/"`'-]{1,60}, not (?:the |a |an |in |on |by |for |with )?[\w"`-]+
        [\w.]+ and not [\w.]+$|it~s \S+ not \S+
        is (?:called|spelled|named|written)\b
        (?:leftover|dead code|red herring|the old one|only the template|a leftover)
        that~?s why (?:it|the|you)
        (?:has|have) (?:moved|been renamed)|was renamed|got renamed
        we~re pinned to|the docs you
        your (?:\w+ )?(?:report|code|version|change|patch|answer|test|summary|query|script|example|table|draft|plot|function|fix|list|count|translation|diagram|chart|commit) (?:still )?(?:is|are|has|uses|begins|starts|assumes|says|calls|does|puts|treats|ignores|forgets|sorts|rounds|counts|still|misses|leaves|drops|reads|writes)
        """,
    ),
    # ------------------------------------------------------------------ decision
    Cue(
        D,
        4,
        "says what was decided",
        r"""
        (?:we|i|they|team|group|board|client|customer|committee|management|product|legal|boss|cto|ceo|lead|council|maintainers|stakeholders|jury|users|everyone)(?:~ve| have| has|~s)?(?: all| both| just| finally| now| then| also| unanimously| yesterday| today)? (?:decided|agreed|settled|chose|chosen|picked|opted|voted|standardi[sz]ed|adopted|concluded|ruled out|rejected|signed off|approved|resolved|committed to|dropped|abandoned|ditched|scrapped|retired|deprecated|replaced|switched|migrated|went (?:with|for|back)|moved (?:from|to|off|over|away|everything|all)|sunset|froze|vetoed|turned down|stopped|cancelled|canceled|said no to|killed|shelved|postponed|confirmed|pulled out|shut down)\b(?! the wrong| a minute| to take a break)
        (?:we~?re|we are|i~?m|i am) (?:now )?(?:going (?:with|to keep|to use|to drop|to stay|ahead with|back to)|dropping|killing|keeping|sticking|switching|moving (?:to|from|off|away|everything|all)|giving up|staying|abandoning|retiring|removing|freezing|deprecating|ditching|scrapping|replacing|adopting|standardi[sz]ing|done with|out\b|committed to|settled)
        (?:we'll|we will|i will) (?:not |no longer |stick|go with|use|keep|support|drop|stay|ship|stop|move|switch|adopt|replace|release|host|charge|write|build|publish|target|take|live with)(?! (?:\w+ ){0,3}in mind)
        (?:made up (?:my|our) minds?|my mind is made up|the choice (?:is|fell)|we have a winner|the choice fell)
        we won~t|we go (?:with|for)|we stay (?:with|on)|we stick (?:with|to)|let~?s go with|let~?s (?:stick|stay) with
        (?:decision|decided|verdict|resolved|outcome|conclusion|final call|final answer|final decision|agreed)(?: on [\w ]+| is| was)?:
        (?:final:|full stop|so it~s settled|we~re not doing|final answer|final decision|it~s (?:final|decided|settled|official)|that~s (?:final|decided|settled)|end of discussion|case closed|off the table|set in stone)
        (?:was|were|is|been) (?:voted (?:down|in|out)|ruled out|chosen|decided|agreed|approved|rejected|dropped in favou?r)
        the vote (?:was|went)|voted for|vote was|unanimous
        as agreed|convinced us|we~ve been round this|the winner is|(?:won|wins) and stays|\bit is,? then$
        (?:is|are) out[.,;]|(?:is|are) out$|took over|takes over|(?:is|are) (?:gone|history|dead) as of
        no more (?!than\b)[\w-]+
        in favou?r of|instead of [\w ]+ we
        as of (?:today|now,|tomorrow|the|{_DAY})
        (?:starting|effective|beginning) (?:with |from |in |on )?(?:today|tomorrow|the next|{_DAY})
        then it goes|goes away (?:in|after|with)|(?:ends|stops) with (?:the )?(?:next|version|v\d)|end of life
        for good\b
        """.replace("{_DAY}", _DAY),
    ),
    Cue(
        D,
        4,
        "says what was decided",
        r"""
        (?:decided|settled|going|voted|went|agreed|picked|chose|opted|sticking|switched|switching|standardi[sz]ed|moved|dropping) (?:on|with|for|against|to|that|not to|in)\b
        (?:so )?(?:no|raw|plain) \w+[.,;] (?:raw|plain|just|only|we)
        [\w.+-]+ it is[.,!]?
        """,
        opening=True,
    ),
    Cue(
        D,
        2,
        "says what will be",
        r"""
        (?:will|won~t|will not) (?:use|be|have|get|keep|stay|go|support|run|live|ship|move|replace|become|not|require|need|stop|drop|include|target|remain)
        (?:stays|remains|wins|won|is final)\b|after (?:\w+ ){1,3}the \w+ gets
        until the end of
        from (?:{_DAY}) on
        """.replace("{_DAY}", _DAY),
    ),
    Cue(
        D,
        4,
        "says what was decided",
        r"""
        entschieden|beschlossen|geeinigt|festgelegt|vom tisch|wir (?:nehmen|bleiben bei|steigen um|setzen (?:jetzt )?auf)|dabei bleibt es
        hemos (?:decidido|elegido|optado|acordado)|decidimos|optamos|elegimos|acordamos|nos quedamos con|queda decidido|se decidió|vamos con
        (?:on|nous) (?:a|avons) (?:tranché|décidé|choisi|opté|retenu)|on (?:reste|part|passe) (?:en|sur|à|avec)|c'est décidé|décision prise
        abbiamo deciso|decidimos
        """,
    ),
    Cue(
        D,
        4,
        "says what was decided",
        r"""
        决定|选定|定下来|敲定|最终(?:用|选|采用)|改用|不再(?:用|支持|使用)|确定(?:用|采用|使用)|放弃
        に決め|に決定|ことにし|ことになり|採用(?:し|する)|決定し|廃止|やめること|移行(?:し|する)こと
        """,
    ),
    # ------------------------------------------------------------------ pattern
    Cue(
        R,
        4,
        "says how it is always done",
        r"""
        (?:we|they|you|nobody|everyone|everybody|no one|one|team|people|devs|developers|reviewers|students|\w+s) (?:always|never|usually|normally|generally|typically|routinely|only ever|tend to|by convention) (?!seem|got|had|knew|been|thought|heard|needs?\b|mind|have to)[a-z]+
        (?:is|are|gets?|goes|must|may|has|have|be) (?:always|never|usually|normally|only ever|only) (?!the same|been|had|a\b|for that)[a-z]+
        (?:our|the|house|project|team|general|usual|golden|one|an?|local) (?:convention|rule|policy|practice|drill|house style|procedure|routine|ritual|custom|etiquette|standard|guideline|principle) (?:is|for|here|says|that|:|of thumb)
        (?:as a rule|rule of thumb|house rule|by convention|our convention|convention here|usual drill|the way we|how we do|that~s how we|like with all|as with all|like all our|our usual)
        (?:always|never) [\w` -]{2,60} (?:in (?:this|our|the) (?:service|repo|repository|project|package|code ?base|module|library|app|team)|in prod|in production|(?:on|to|into) main|here$|here[.,])
        without exception|no exceptions|across the (?:whole )?(?:repo|code ?base|board)
        whenever (?!you like|you~re ready|you want|you can)
        an? [\w-]+(?: [\w-]+)? (?:always|never|only|must|may not|may only|has to|needs) (?!a\b|been|been|seen|the\b)[a-z]+
        whoever [\w ]{2,40}|who(?:ever)? breaks
        (?:happens?|takes? place|goes out|go out|ships?) (?:on|every|once|at) (?:mon|tues|wednes|thurs|fri|satur|sun|every|a |the first|noon|night)\w*
        nobody (?:\w+-)?(?!knows|seems|told|noticed|uses)[a-z-]+s\b|no one (?:merges|pushes|edits|deploys|touches|commits)
        go(?:es)? through (?:a|the|an|review|code)
        (?:warnings|todos) are errors
        """,
    ),
    Cue(
        R,
        3.5,
        "states a rule for every case",
        r"""
        (?:every|each|any|all (?:our|new|public|of our)) [\w` /-]{2,50}? (?:gets?|has|have|must|needs?|carr(?:y|ies)|goes|go|is|are|starts?|ends?|lives?|comes?|ships?|requires?|should|runs?|includes?|bears?|takes?|begins?|passes|pass|uses?|sits?|follows?|belongs?|contains?|names?)\b
        (?:for|before|after|with|in) (?:every|each|any|all(?: our| new)?) [\w -]{2,50}?(?: we|, we|:|, the|, an?)\b
        (?:for|before|after|like|as)(?: with)? (?:all our|every one of our) [\w -]{2,50}:
        no [\w -]{2,40} (?:without|goes|may|ships?|is (?:merged|released|deployed)|are (?:merged|released|allowed)|gets? merged|lands?)\b
        nothing (?:is|gets|goes|ships|lands|leaves|may)\b
        (?<!i )(?<!still )(?<!you )(?:must|have to|has to|needs? to) (?:always |never |first |not )?(?:be|go|pass|carry|start|end|live|come|stay|name|include|run|use)\b
        (?:is|are) (?:required|mandatory|forbidden|not allowed|banned|compulsory|obligatory)
        (?:when|if) (?:an?|the|someone|somebody|two|anyone|we|something|ci|you) [^,?]{3,80}, (?:then )?(?:the|we|it|an?|someone|somebody|they|you|whoever|that|open|run|ask|first) ?
        when (?:an?|the|something|someone|somebody) [^,?]{3,60} we [a-z]+
        (?:before|after) (?:each|every|any|a) (?:release|merge|deploy|deployment|commit|push|review|migration|sprint|run|test)
        (?:then|nullable first|first),? [\w ]{2,40}, then
        all (?:look|follow|live|go|have|use|are)\b
        one \w+ per \w+
        by hand[;,.]|by hand$
        """,
    ),
    Cue(
        R,
        3,
        "states a rule for a class of things",
        r"""
        (?!the|my|your|their|our|his|her|some|many|most|few|there|this|these|those|things|tests (?:are|were) (?:failing|broken|green|red)|was|is|its|yes|looks|does|thanks|sounds|seems|thats|lets|always|previous|less|unless|pass|focus|status|docs say|notes)(?:[a-z-]+ ){0,2}[a-z-]+s (?:are|go|live|have|get|must|need|only|never|always|carry|start|end|come|belong|raise|return|use|follow|sit|stay|should|run|ship|take|begin|say)\b
        """,
        opening=True,
    ),
    Cue(
        R,
        2.5,
        "says what is done here",
        r"""
        we (?:\w+ly )?(?:pin|name|tag|deploy|release|merge|squash|rebase|write|keep|put|use|run|build|ship|test|review|review|log|store|track|version|document|generate|format|lint|call|sort|round|number|label|cut|commit|push|branch|prefix|mock|cache|import|export|raise|return|wrap|validate|check|sign|back|plan|meet|ask|open|close|don~t|do not|do|start|end|follow|count|freeze|rotate|measure|restart|publish|translate|host|hold|archive|mark|group|target|support|treat|split|stick)\b(?! (?:it|that|this) (?:now|again|yet))
        (?!the|my|your|this|these|those|was|is|its|yes|does|thanks|less|unless|always|always|things)[a-z-]{3,}s (?:log|sync|pay|see|write|read|work|share|send|keep|hold|answer|speak|expect|know|show|sign|call|meet|ship|close|open|break|fail|pass|happen|last|expire|contain|include|depend|require) (?:in|on|with|by|to|over|for|at|from|the|their|a|an|every|through|via|only)\b
        (?:usually|normally|generally|typically|traditionally|customarily)\b
        for (?:docs|code|tests|commits|hotfixes|releases|migrations|bugs|reviews|\w+s):
        """,
    ),
    Cue(
        R,
        4,
        "says how it is always done",
        r"""
        bei uns|grundsätzlich|niemals|wir (?:\w+ )?(?:immer|nie|grundsätzlich)|jede[rs]? (?:neue|\w+) (?:\w+ )?(?:bekommt|kriegt|muss|hat|braucht|wird)|in der regel|immer erst|muss immer
        tod[oa]s l[oa]s|nunca se|siempre (?:se|que|hacemos|usamos)|cada [\wáéíóúñ ]+ (?:lleva|tiene|debe|necesita|se)|por norma|por convención|solemos
        chez nous|on (?:ne )?\w+ (?:toujours|jamais)|toujours|jamais de|chaque [\wéèàç ]+ (?:doit|a|est|porte|passe)|par convention|en règle générale
        """,
    ),
    Cue(
        R,
        4,
        "says how it is always done",
        r"""
        我们(?:每次|总是|一般|通常|从不|从来不|都|一律|统一)|每次.{1,30}都|每个.{1,20}(?:都|必须|要)|所有.{1,20}(?:都|必须|要)|必须|一律|统一用|不允许|禁止|惯例|约定|规范
        必ず|運用|ルール|毎回|常に|禁止|規約|慣例|ことになって(?:い|る)|決まり|全て.{1,20}(?:する|します)|すべて.{1,20}(?:する|します)
        """,
    ),
    # ------------------------------------------------------------------ context
    Cue(
        X,
        3,
        "is offered as background",
        r"""
        heads[- ]up|fyi|for (?:your information|context|the record|background|reference)|some background|background:|context:|just so you know|so you know|note that|keep in mind|bear in mind|remember that|be aware|mind you|good to know|worth knowing
        """,
    ),
    Cue(
        X,
        2.5,
        "tells of the surroundings",
        r"""
        (?:our|my|their) [\w .'/-]{2,60}?(?: is| are|'s| has| have| runs?| lives?| uses?| sits?| comes?| starts?| begins?| ends?| works?| speaks?| expects?| costs?| takes?| gets?| needs?| does| do| mostly| only)\b
        we~?re (?:a |an |on |two |three |four |five |the |based |pinned |\d+ |all |only )
        we (?:have|own|run on|only have|only provide|get|pay|sell|serve|develop|work|maintain|don~t (?:have|pay|own|control))\b
        i (?:have|own|work|live|run|use|teach|maintain|study|develop) (?:an?|at|on|in|for|from|the|with|as|two|three|only)\b
        i (?:teach|study|live in|maintain|speak|design|manage|lead|research|translate|moderate|own|administer)\b
        i~?m (?:an?|the|based|responsible|new to|from) (?!bit|little|tad|sec|fan)[\w-]+
        (?:this|the) (?:laptop|machine|checkout|repo|repository|project|box|server|board|cluster|device|code ?base|company|office|team|customer|client|deadline|budget) (?:has|is|runs|uses|targets|lives|was|belongs)
        (?:prod|production|staging|ci|dev|db|sso|auth|monitoring|billing|hosting|the api|repo) (?:is|are|has|runs|lives|uses|sits)\b
        (?:repo|project|app|it) (?:has|consists of) (?:\d+|two|three|four|several)
        """,
    ),
    Cue(
        X,
        2,
        "says where, who or what something is",
        r"""
        (?:lives?|sits?|runs?|hosted|deployed|stored|kept|located|mounted|installed|mirrored|generated|provisioned|exported|written|served|maintained|delayed|limited|stopped) (?:on|in|at|under|behind|by|from|to|as|with|through|every|over|inside|next to)\b
        (?:comes?|made|fed|read|built|imported|pulled) (?:from|out of|w/|with|by)
        (?:owns|owned by|belongs to|responsible for|in charge of|reviews|maintains|looks after|reports to|talks to|depends on|listens on|points to|stands for|consists of|connects to|speaks|targets|expects|requires|supports|contains|hosts|handles|manages|expires|strips|counts|measures|weighs|costs|watches|trusts)\b
        (?:port|version|deadline|budget|tenant|region|cluster|dataset|bucket|branch|database|server|timezone|time zone|revision|licen[cs]e|baud|address|subnet|vlan|instance|account|domain|host|hostname|endpoint|bus|addr)\b
        there (?:is|are) (?:an?|two|three|four|five|six|no|only|about|\d+|one|several|exactly)\b
        (?:no|without) (?:internet|network|access|gpu|root|sudo|admin|wifi)
        (?:is|are) (?:mostly|based|made|done|written|run|used|shared|on|in|at|from|behind|only|for|limited)\b
        """,
    ),
    Cue(
        X,
        3,
        "tells of the surroundings",
        r"""
        unsere?[rmns]? [\wäöüß-]+ (?:ist|sind|läuft|liegt|hat|heißt|nutzt|kommt|sitzt|steht)|der kunde|die kundin|läuft (?:auf|unter|mit)|liegt (?:auf|in|unter)|wir (?:haben|sind|nutzen|benutzen|arbeiten|verwenden|schreiben|setzen|betreiben|hosten|liefern|testen|bauen)|in allen|für alle|sitzt in|arbeitet (?:nur )?mit
        (?:nuestr[oa]s?|el|la|los|las) [\wáéíóúñ -]+ (?:es|son|está|están|corre|usa|tiene|vive|funciona|se (?:ejecuta|encuentra))\b|(?:usamos|tenemos|somos)\b|el cliente
        je (?:travaille|vis|suis|développe|gère) (?:sur|à|en|une?|le|la|dans|pour)|mi [\wáéíóúñ ]{2,30} (?:es|usa|tiene|corre)|mon [\wéèêàçô ]{2,30} (?:est|a|utilise)
        (?:notre|nos|le|la|les) [\wéèêàçô -]+ (?:est|sont|tourne|utilise|a|ont|se trouve|fonctionne)\b|nous (?:avons|utilisons|sommes)|on (?:utilise|a (?:une?|des|deux|trois))\b
        """,
    ),
    Cue(
        X,
        3.5,
        "tells of the surroundings",
        r"""
        (?:在|是|用的是|运行在|部署在|位于|只能|使用|采用|有).{0,20}(?:机房|服务器|环境|仓库|数据库|版本|端口|目录|团队|客户|系统|集群|分支|登录|平台|接口|[a-z0-9])
        (?:にあります|です|ています|ている|ております|を使って(?:い|お)|で動(?:い|作)|になって(?:い|お)|があります|されて(?:い|お)|のみ|しかない|ません)
        """,
    ),
    # ------------------------------------------------------------------ declined: uncertain
    Cue(
        UNCERTAIN,
        6,
        "is not sure",
        r"""
        iirc|afaik|afaict|idk|not 100 ?%?|i doubt|doubtful|je me demande|me pregunto|ich frage mich|dunno|ymmv|as far as i(?:~m)? (?:know|remember|recall|can|aware)|to (?:the best of )?my knowledge|last i (?:checked|heard|looked|knew)|if (?:i~?m not mistaken|im not mistaken|i (?:remember|recall|am not)|memory serves)
        (?:i |i~m |im )?not (?:\w+ ){0,2}(?:sure|certain|clear|positive|confident)|unsure|unclear|uncertain|no (?:idea|clue)|not convinced
        (?:i |we |really )?(?:don~t|do not|didn~t) (?:\w+ )?(?:know|remember|recall)|(?:can~t|cannot|can not|couldn~t|could not) (?:\w+ )?(?:tell|say for|say which|confirm|remember|recall|check|verify|find anything|promise|swear)|who knows|nobody knows
        i (?:vaguely |think i |seem to |half |kinda )?(?:remember|recall)(?:ed)? (?!to\b)|i want to say|i forget|i forgot (?:which|whether|if|what)|i (?:was|got) told|i(?:~ve)? heard|from what i|somebody (?:said|told)|someone (?:said|told|mentioned)|word is|rumou?r|hearsay|supposedly|allegedly|apparently|reportedly|purportedly|they say
        presumably|i (?:presume|assume|suspect|imagine|reckon|gather|suppose|believe|guess|figure)|i~d (?:guess|say|assume|bet|imagine|have to (?:check|look|open|ask))|my (?:best )?guess|(?:only|just|wild|best|educated) (?:a )?guess|guessing|at a guess
        (?:would|i~d|i~ll|i) (?:have|need) to (?:ask|check|verify|look|confirm|double)|(?:need|have) to (?:check|verify|confirm|ask) (?:that|this|it|with|first)\b|have(?:n~t| not) (?:\w+ )?(?:checked|verified|seen|tested|tried|looked|measured|confirmed|read)|haven~t|never (?:verified|checked|confirmed|tested)|not (?:verified|tested|confirmed|checked)|unverified|unconfirmed|to be (?:confirmed|verified|checked)|tbc|tbd
        don~t (?:hold|quote) me|take (?:it|that|this) with|grain of salt|may or may not|could (?:also )?be that|or was it|or maybe|or it was|or (?:possibly|perhaps)|can~?t be sure|hard to (?:tell|say)|question mark|been (?:years|ages|a while) since|i wasn~t (?:there|around)|wasn~t there|before my time|would know\b
        give or take|or so\b|or something|or thereabouts|ish\b|something like that|around \w+, possibly|possibly more|might be \w+ t?ho
        seems?(?: to| like| as)|seemed|looks? like|sounds? like|appears? to|feels? like|i get the impression|one (?:page|doc|person) says|suggests
        treat (?:both|it|this|that) as|both styles|contradict each other
        """,
    ),
    Cue(
        UNCERTAIN,
        5,
        "is not sure",
        r"""
        i think|i thought (?!about it)|think (?:it|the|we|its|it~s|that|they|he|she)\b|mayb(?:e)?|perhaps|possibly|probably|prob\b|probs|prolly|likely|most likely|conceivably
        it \*?should\*? be|should be (?:about|around|on|in|at|roughly|somewhere)|supposed to be|ought to be|must have been|could have been|might have
        vermutlich|wahrscheinlich|glaube?\b|ich denke|bin (?:mir )?(?:nicht|un)\s?sicher|nicht (?:ganz )?sicher|keine ahnung|weiß (?:ich )?nicht|angeblich|anscheinend|scheint|meines wissens|soweit ich weiß|kann auch|müsste
        creo que|no estoy segur[oa]|no sé|supongo|me parece|puede que|si no recuerdo mal|que yo sepa|al parecer|debe de
        je crois|je pense|pas (?:très |vraiment |tout à fait )?sûre?|je suppose|il me semble|sans doute|je ne sais|sais pas|sais plus|si je me souviens|probablement|apparemment
        """,
    ),
    Cue(
        UNCERTAIN,
        6,
        "is not sure",
        r"""
        好像|大概|应该是(?!.{1,20}不是)|不确定|不知道|不太清楚|不清楚|我猜|我记得|记不清|印象中|据说|似乎|不太确定|没把握
        と思(?:う|い|って)|たぶん|多分|おそらく|自信(?:は|が)な|はず|だろう|でしょう|たしか|確か|わから|分から|らしい|みたい|気がする|覚えて(?:い)?な|かな
        """,
    ),
    Cue(
        UNCERTAIN,
        5,
        "is not sure",
        r"""
        (?:pretty|fairly|almost|reasonably|quite|half|nearly|kind of|kinda) (?:sure|certain|confident|positive)|i (?:could|might|may) be wrong|correct me if|don~t ask me|as i understand|my (?:understanding|impression|hunch|gut)|gut feeling|hunch|off the top of my head|from memory|no guarantees?|unless (?:i~?m|something|they|someone|it) (?:\w+ )?(?:changed|wrong|mistaken|has|have)?|may(?: well| still| also)? (?:be|have)\b|may~ve|might~ve|could~ve|could have been
        i (?:do not|don~t|wouldn~t) (?:think|believe|suppose|bet)|(?:doesn~t|didn~t|don~t) seem|i (?:would|~d) (?:think|guess|say|assume|bet|expect)|i~d (?:think|expect)|i expect|i~?m (?:guessing|assuming|hoping|told)|(?:assume|guess|bet|suspect|figure) (?:it|the|that|this|so|they|its)\b|i hear\b|not that i know|not aware of|hopefully|fingers crossed|in all likelihood|by the looks|judging (?:by|from)|reads as if|as if\b|vaguely?|hazy|fuzzy|lost track|beats me|anyone~?s guess|open question|remains to be seen|one theory|the theory is|smells like|conflicting|never got an answer|needs? (?:checking|verifying|confirmation|confirming|a check)|still (?:have|need) to (?:check|verify|find|ask)|seemingly|ostensibly|potentially|plausibly|evidently
        (?:was|were) (?:\w+ ){1,6}when i last|last time i|when i last|at least (?:it|they|that) (?:was|were|did|used)|at least last|(?:it~s |is )?either [\w .-]{2,40} or\b|one of (?:the two|those two|them)\b|somewhere (?:around|between|in|near|on)|something like|more or less|roughly|in the ballpark|ballpark
        (?!i |guide|docs?|we|policy|contract|rule|law|spec|it|manual|standard|readme|paper|that|which|who)[a-z]+ (?:thinks|thought|claims|claimed|believes|believed|mentioned|reckons|swears|assumes|guesses|suspects|told me|once said)\b|according to (?:a|an|some|someone|one|my|the old|legend|tom|\w+ from)\b|used to be\b
        dürfte|schätze|ich meine|kann sein|könnte sein|wohl\b|ungefähr|unsicher|nicht genau|diría que|parece que|no recuerdo|no me acuerdo|il paraît|je dirais|on dirait|doit être|je ne suis pas
        """,
    ),
    Cue(
        UNCERTAIN,
        5,
        "is not sure",
        r"""
        吧[。！]?$|不一定|听说|估计|说不准|没查过|没确认
        っけ|ような気|聞いた(?:気|こと)|不明|あやふや|うろ覚え|未確認
        """,
    ),
    # ------------------------------------------------------------------ declined: speculation
    Cue(
        SPECULATION,
        6,
        "is an idea, not a fact",
        r"""
        what if|suppose (?:the|we|it|i|you|there)|imagine|hypothetically|theoretically|in theory|in principle|ideally|in an ideal world|in a perfect world|thinking (?:of|about|out loud|aloud|whether|that)|had thought about|thought about (?!it)|half thinking|toying|mulling|considering|contemplat\w+|tempted|daydream\w*|brainstorm\w*|musing|spitballing
        part of me|kinda (?:want|like|feel)|sort of want|kind of want|on the fence|torn between|leaning|still (?:debating|deciding|thinking|undecided|open|discussing)|undecided|haven~t decided|not decided|have yet to decide
        (?:would|could|might|may) (?:be|also be|even be) (?:\w+ )?(?:nice|cool|great|fun|clean|cleaner|better|neat|handy|worth|good|easier|simpler|interesting|an option|lovely|useful|smart|enough|possible|the case|cheaper|faster)|(?:could|might|would) (?:turn out|help|work|make|solve|save|want|need)|would(?:n~t)? it be|would have been
        (?<!within )(?<!for )(?<!than )one day(?! (?:before|after|of|per))|some ?day|eventually(?! consistent)|at some point|down the (?:road|line)|in the long run|sometime|sooner or later|further down|when we have time|nice to have|wish\b|i wish|if only|would love to see
        there(?:~s| is) a (?:\w+ )?(?:chance|possibility|case|argument)|one could|you could argue|some would|an? (?:crazy |random |wild |quick |rough )?(?:idea|thought)\b|just (?:an idea|a thought|thinking)|food for thought|big maybe|let me think|sleep on it
        we (?:should|could|might|may(?! not| only)|ought)(?: \w+)?|could we|should we|shall we|we~d (?:\w+ )?(?:want|need|use|have|be|never|always|go|probably)|if we (?:ever|do|did|had|were|went|go|decide|want)|might (?:want|be|as well|make|have|go|try|need)|mightn~t|may (?:think|want|decide|consider|try)|assuming
        i (?:wonder|was wondering|was thinking|am wondering|might|could|may)\b|wondering|i~m (?:not )?(?:wondering|thinking|curious|inclined)|who knows|not (?:now|today) tho|lets? not go there|how about|why not|what about
        vielleicht|eventuell|evtl|könnte[nst]?|könnt|würde[nst]?|irgendwann|womöglich|möglicherweise|mal überlegen|man müsste|wäre
        quizás?|tal vez|a lo mejor|podría(?:mos|n)?|algún día|estaría bien|sería|deberíamos
        peut-être|on pourrait|pourrait|pourrions|un jour|éventuellement|ce serait|on devrait|il faudrait
        """,
    ),
    Cue(
        SPECULATION,
        6,
        "is an idea, not a fact",
        r"""
        也许|可能|或许|考虑|要不|说不定|如果.{0,12}(?:会|就|能)|将来|有空|是不是(?:可以|应该)|不如|要是|想过|也可以
        かもしれ|かも$|検討|いつか|できたら|あったら|れば(?:いい|よ)|どうかな|考えて(?:い|る)|もし.{0,20}(?:たら|なら)|のもあり|将来
        """,
    ),
    Cue(SPECULATION, 4, "is not said as a fact", r"could|might"),
    Cue(
        SPECULATION,
        2,
        "is not said as a fact",
        r"would|may(?! not| only)|(?<!s )should (?!say|never|always|only)|if (?:we|i|it|that|this|you|they)",
    ),
    # ------------------------------------------------------------------ declined: transient
    Cue(
        TRANSIENT,
        6,
        "holds only for the moment",
        r"""
        for (?:now|the moment|the time being|today|tonight|this (?:one|run|time|session|test|commit|pr|task|demo|screenshot|bug)|that (?:bug|one|run|test)|the (?:demo|screenshot|next (?:hour|few|\d+)))|right now|at the moment|atm|currently|presently|temporar\w+|meanwhile|in the meantime|momentarily|short-term
        (?<!as of )(?<!since )today(?!~s date)|tonight|tmrw|tmr|tomorrow|this (?:time|morning|afternoon|evening|week|weekend|session|once|instant|round)|in this session|just (?:this|the) once|just this|only (?:this|for this|for that|today)|once\b(?= (?:and|more|so|then))|one[- ]off|one last time|one more time
        before (?:tomorrow|noon|lunch|tonight|i (?:leave|go|forget))|(?:until|till|til) (?:i|i~m|i~ve|im|we|we~re|he|she|[a-z]+ (?:has|is|comes|gets|answers|replies|returns)|then|tomorrow|later|noon|one|two|three|four|five|six|lunch|\d+)\b|not yet|yet$|yet[,;.]|for a (?:sec|second|minute|moment|bit|while)|in a (?:minute|moment|sec|second|bit|while)|back in|brb|bbl|afk|be right back|a (?:minute|moment|second|sec) ago|(?:minutes?|hours?|mins?) ago|in (?:\w+ )?(?:minutes|mins|hours?)\b|just now|earlier today|by (?:tonight|tomorrow|noon|eod)|eod\b
        while (?:we|i|you)(?:~re|~m)? (?:debug|hunt|test|look|work|wait|try|fix|do|are|chase|investigate|track|find|go|finish|demo)\w*|take (?:it|that|them) (?:out|off|away) (?:after|again|later)|(?:remove|undo|revert|delete) (?:it|that|them) (?:after|later|again)|was only for|put it back|turn it (?:back )?(?:on|off) (?:again|later|after)|afterwards? (?:remove|undo|revert|put)
        i(?:~ve| have)? (?:just|already) (?!want|need|like|use|prefer|said)\w+|i~ve (?:just|already|started|stopped|pushed|restarted|opened|killed)|we(?:~ve| have)? just\b|i (?:undid|restarted|reverted|deleted|pushed|stopped|killed|started|rebooted|closed|reset|opened|pulled|rebased|merged|ran|tried|fixed|removed)\b
        i~?m (?:about to|on (?:the|a|my)|in (?:a|the|an)|at the|off to|off\b|away|out\b|back\b|busy|going to (?!keep|use|stick|stay|drop|go with)|gonna|done (?:with|editing)|here until|running late|heading|half ?way)|i~?m (?:just |still |now )?(?:switching|editing|upgrading|debugging|testing|working|looking|waiting|running|trying|restarting|rebooting|reading|writing|typing|leaving|watching|travelling|checking|fixing|deploying|rebasing|merging|doing|recording|presenting|sharing|moving|changing|cleaning|updating)
        gonna (?!use|keep|go with|drop)|i~ll (?:do|be|take|check|look|come|fix|handle|get|go|try|test|send|push|let|tell|run|have|need|finish|read|review|merge|paste)|i need to (?:go|leave|run|be|catch)|let me (?:look|see|check|try|know|finish|read|run|test)|battery left|losing wifi|lose wifi|^wait (?:for|until|till)|^wait a
        go (?:again|back|on)|pick up where|(?:continue|carry on|resume|keep going|keep working|proceed) (?:with|from|there|where|on|at|without)\b|^(?:continue|carry on|resume|keep going|proceed)\b|from there|where we (?:stopped|left)|^hold (?:on|off|the)|attempt number|on attempt|still (?:waiting|running|on it|in review|open|building|compiling|downloading|uploading|working on|not done)|(?:is|are) (?:down|offline|being|running late|out of office|on holiday|on vacation|sick|busy|away|on it)\b|incident going|an incident right|got past
        the other (?:file|tab|window|terminal|screen|branch|pane)|different window|other window|second terminal|on (?:the|my) screen|on my desk|next to me|this (?:one|line|error|warning|message|log)$
        so (?:that )?i can (?:see|look|check|test|watch|compare|read|debug|try)|i want to see|to see (?:if|whether|what|why)|see (?:if|whether) it|let~?s see
        heute|gerade|ausnahmsweise|vorerst|erstmal|fürs erste|momentan|im moment|diesmal|vorübergehend|für heute|morgen|eben (?:mal|kurz|schnell)|kurz mal|bis ich|bin gleich
        hoy|ahora mismo|por ahora|de momento|por el momento|esta vez|por esta vez|temporalmente|mañana|esta (?:tarde|mañana|noche)|hasta que|todavía no
        aujourd~hui|pour l'instant|pour le moment|cette fois|en ce moment|provisoirement|temporairement|demain|ce (?:matin|soir)|tout de suite|jusqu'à ce que|pas encore
        """,
    ),
    Cue(
        TRANSIENT,
        6,
        "holds only for the moment",
        r"""
        今天|暂时|先(?:别|不要|不用|用|把|这样)|这次|这一次|目前|现在先|临时|等一下|等会|等我|刚才|刚刚|明天|一会|马上|正在
        今だけ|今回|とりあえず|一旦|いったん|今日|後で|あとで|さっき|一時的|明日|まで待|終わるまで|まだ|ちょっと待|今から|今、
        """,
    ),
    Cue(
        TRANSIENT,
        4,
        "holds only for the moment",
        r"""
        in a hurry|on hold|until further notice|(?:as a )?quick (?:fix|hack|test)|as a test|for (?:testing|debugging)\b|just to (?:see|test|check|try|be|get)|throwaway|this is (?:only |just )?a (?:test|spike|one-off|prototype|draft)|we~ll (?:fix|clean|revert|change|do|see|get to|look|come|talk|undo|sort|deal|tidy|decide|revisit)|so far\b|as we speak|at present|before the (?:demo|meeting|call|talk)|in (?:two|three|five|ten|a few|\d+) (?:days?|minutes?|mins?|hours?|secs?)\b|the (?:meeting|call|demo|train|flight) (?:starts|begins)
        (?<!we )(?<!are )i(?:~?m| am) (?!going with|going to (?:keep|use|stick)|dropping|keeping|sticking|switching to|moving|using|retiring|abandoning|replacing|missing)[a-z]{3,}ing\b|we~re (?:currently |still |now )?(?:debugging|testing|looking|trying|waiting|running|stuck|halfway|nearly|almost|at step|on step|in the middle)|(?:has|have) just\b|just (?:restarted|crashed|went|came|got|finished|started|died|pushed|merged|broke|failed|happened)|went down|came back|back up\b|on its way
        """,
    ),
    Cue(
        TRANSIENT,
        2,
        "is about this turn",
        r"""
        (?<!we )(?<!you )(?:is|are) (?:still |just |now |already )?(?!using|missing|going|running (?:on|in|at|under)|nothing|something|anything|everything|string|interesting|existing)[a-z]{2,}ing\b
        again\b|the last (?:one|change|step|commit|two|three|few|run|message)|your last|last (?:night|run)|this one|that one|just (?:do|run|use|take|the)|(?:go|come) back|one step|next step
        """,
    ),
    # ------------------------------------------------------------------ declined: chat and states
    Cue(
        CHAT,
        4,
        "is a remark",
        r"""
        (?:thanks|thank you|thx|ty|cheers|danke|merci|gracias|great|nice|perfect|awesome|cool|lgtm|wow|excellent|amazing|lovely|brilliant|interesting|haha|lol|good (?:job|work|morning|catch|point)|well done|great (?:job|work|catch)|sounds good|looks good|looks great|makes sense|fair enough|never ?mind|no (?:worries|problem)|you~?re (?:right|welcome)|i (?:see|like it|love it|agree|understand|know)|got it|all good|that (?:works|worked|helps|helped)|it works|works now)[.!,]*$
        (?:that|it|this)(?:~s| is| was| looks| sounds| works| worked)(?: \w+){0,2} (?:great|nice|perfect|good|better|fine|cool|awesome|ok|okay|amazing|enough|weird|odd|strange|funny|interesting|annoying|fun|it)[.!]*$
        here~s\b|here (?:is|are)\b|(?:the|this|that|your) (?:error|log|logs|output|message|stack ?trace|traceback|warning|console|terminal|screenshot|compiler|exception) (?:says?|shows?|is|are|complains|prints|reads|looks?|was|has|points)
        i would not have|i wouldn~t have|i didn~t expect|i~m (?:glad|happy|sorry|impressed|surprised|confused|tired|hungry)|hope (?:you|that)|have a (?:nice|good)|how are you|we did it|that was
        """,
        opening=True,
    ),
    Cue(
        CHAT,
        3,
        "tells of the speaker's day",
        r"""
        (?:and |also |actually |recently |yesterday,? |anyway,? |by the way,? )*i(?: actually| also| recently| just| really| finally| even| still| almost)* (?!agreed|decided|need|picked|opted|settled|voted|adopted|rejected|dropped|replaced|switched|migrated|moved|retired|abandoned|ditched|approved|preferred|used to|based)(?:[a-z]{3,}ed|got|went|saw|took|had|made|met|felt|spent|heard|began|was(?! wrong)|came|ate|left|forgot|lost|broke|wrote|put|set)\b
        i(?:~ve| have) been|i(?:~m| am)(?: also| just| really| particularly| actually| still| currently| mainly)* (?:interested|planning|glad|curious|looking|trying|hoping|excited|wondering|happy|sorry|sure|worried|struggling|thrilled|working|attending|writing|preparing|feeling|new)
        i (?:\w+ )?(?:hope|wish|plan|intend|want to|need to|have to|also want|also need)\b|i~d (?:\w+ )?(?:like|love) to|i~ll\b|i think\b|i feel\b|i (?:also |still )?(?:need|want) (?:to|some|help|a|an)\b
        (?:it|that|this)(?:~s| is| was) (?:\w+ ){0,2}(?:good|great|nice|amazing|inspiring|sad|important|interesting|fascinating|funny|crazy|cool) (?:to|that|how)\b
        """,
        opening=True,
    ),
    Cue(
        REQUEST,
        3,
        "asks for one thing",
        r"""
        i(?: need| want|~d like| would like) you to|(?:[\w ]{2,20}, )?(?:now )?(?:please|pls) (?:give|write|make|list|show|provide|tell|create|find|add|explain) (?:me )?(?:an?|the|some|\d+|this|these)\b|i(?:~d| would) appreciate|i appreciate|act as an?|for the (?:advice|help|info|tips?)
        """,
        opening=True,
    ),
    Cue(
        REQUEST,
        3,
        "asks for one thing",
        r"""
        帮我|请(?:把|帮|给|看|检查|修|改|写|加|删|解释|翻译)|^把|^给我|^看一下|^写一?个|^加一?个|^修(?:一下|复)|^翻译
        (?:して|直して|書いて|見て|教えて|作って|消して|追加して|確認して|変えて)(?:ください|くれ|ほしい|下さい)|してみて$
        """,
    ),
    Cue(
        CHAT,
        3,
        "tells what just happened",
        r"""
        still (?:broken|failing|fails?|crash\w*|red|wrong|slow|hangs?|not|the same|there|happens|happening|getting|shows)|same (?:error|message|problem|result|issue)|(?:doesn~t|does not|didn~t|isn~t|not) work(?:ing)?|(?:is|are|was|were|got|it~s|keeps?) (?:broken|failing|crashing|stuck|hanging|red|green again|timing out|empty)|(?:it|that|this|build|test|tests|job|script|page|app|server) (?:fail(?:s|ed)|crash(?:es|ed)|broke|hangs|hung|died|passed|passes|froze)|(?:got|getting|gives me|i get|i see|there~s) (?:an?|this|the|some) (?:\w+ )?(?:error|exception|warning|traceback|crash|bug|typo)
        (?:i|we) (?:tried|ran|got|saw|found|noticed|looked|did|made|added|changed|installed|updated|spent|lost|broke|wrote|went through|talked)\b
        (?:is|are|looks?|~s) (?:\w+ )?too (?:long|short|slow|big|small|wide|loud|dark|bright|verbose|noisy|complicated|vague)|(?:much|way|so much|a lot) (?:better|nicer|faster|cleaner|worse)|work(?:s|ed) (?:now|fine|great|again|like)
        (?:look|looks) (?:flipped|off|wrong|odd|strange|good|fine|different|weird)
        """,
    ),
)

# What opens a question, after words like "so" and "hm".
QUESTIONS = r"""
    (?:is|are|was|were|am|isn~t|aren~t|wasn~t|weren~t|ain~t)(?: not)? (?:it|this|that|there|the|these|those|we|you|u|they|he|she|i|our|your|my|any|anyone|everything|\w+)\b
    (?:do|does|did|don~t|doesn~t|didn~t) (?:you|u|we|they|i|he|she|it|the|this|that|these|those|our|your|my|any|anyone|anybody|all|other|most|both)\b
    (?:can|could|will|would|should|shall|may|might|must|couldn~t|wouldn~t|shouldn~t|can~t|won~t) (?:you|u|we|they|i|he|she|it|the|this|that|these|those|our|your|my|any|anyone|somebody|someone|there)\b
    (?:has|have|had|hasn~t|haven~t|hadn~t) (?:you|u|we|they|i|he|she|it|the|this|that|anyone|anybody|our|your)\b
    (?:what|which|who|whose|whom|where|why|how)(?:~s|~d|~re|~ll)?\b
    if [^,]{3,60} (?:can|could|should|would|will|do|does|is|are) (?:i|we|you|it|there)\b
    when(?:~s|~d)? (?:is|are|was|were|do|does|did|will|would|should|can|could|has|have)\b
    any (?:idea|ideas|clue|chance|reason|thoughts|way|news|update|suggestions?|hints?|opinion)
    i(?:~d| would) like to (?:know|understand|ask)|let me know (?:if|what|when|whether|how|which|where)|wdyt|thoughts|remind me|tell me (?:what|which|who|where|why|how|when|if|whether)|i (?:wonder|wanted to (?:ask|know))|(?:just )?(?:curious|wondering)|quick question|question:
    (?:was|wer|wo|warum|wieso|weshalb|wie|welche[rsnm]?|wann|womit|gibt ?~?s|gibt es|kann(?:st)? (?:du|man|ich)|könntest|können wir|sollen wir|soll ich|ist (?:es|das|der|die)|sind (?:wir|die)|hat (?:der|die|das|jemand)|haben wir|hast du|weißt du)\b
    (?:qué|cuál|cuáles|quién|dónde|por qué|cómo|cuándo|cuánto|puedes|podrías|hay alguna?)\b
    (?:que|quel(?:le)?s?|qui|où|pourquoi|comment|quand|combien|est-ce|qu'est-ce|peux-tu|pouvez-vous|y a-t-il|sais-tu)\b
"""
# What makes a question of a sentence wherever it stands.
ASKING = r"""
    (?:吗|呢|什么|怎么|为什么|哪个|哪里|哪些|几个|多少|是不是|有没有|能不能|可不可以)
    (?:ですか|ますか|でしょうか|のか$|の[?？]|どう(?:して|やって|すれば)|なぜ|どこ|どれ|いつですか)
"""

# Verbs that open a request for one thing.
VERBS = frozenset(
    """add adjust allow amend analyse analyze answer append apply archive arrange assert assign assume attach
    avoid backport benchmark bisect bring build bump bundle calculate call cancel capture catch change check
    choose clarify clean clear click clone close collapse collect combine come comment commit compare compile
    compress compute configure confirm connect consider convert copy correct count cover create crop cut debug
    decide define delete deploy describe design diff disable discard display document double download draft
    draw drop dump duplicate edit email embed enable ensure estimate evaluate examine exclude execute expand
    explain explore export expose extend extract fetch figure fill filter find finish fix flip focus fold
    follow format forget generate get give go grep group guess handle help hide highlight hook identify ignore implement
    import improve include increase indent init inline insert inspect install instrument integrate introduce
    invert investigate join jump keep kill label leave let link lint list listen load log look lower make
    mark measure merge migrate mock modify monitor move name note normalize open optimise optimize order
    outline parse paste patch pause pick pin ping plan play plot point polish pop populate port prefix prepare
    print profile proofread propose provide publish pull push put query raise read rebase rebuild recalculate
    record recreate redo reduce refactor refresh regenerate register reinstall release reload remember remove
    rename render reorder repeat replace reply report repeat reproduce request rerun rescan reset resize
    resolve restart restore restructure retry return reuse revert review reword rewrite roll rotate round run
    save scaffold scale scan schedule search see select send separate set setup shorten show shrink simplify
    simulate sketch skip sleep sort spell split squash stage start stash stay stop store strip submit suggest
    sum summarise summarize swap switch sync tag take talk tell test throw tidy tighten time toggle touch
    trace track train transform translate trim try tune turn tweak type undo unify uninstall unpack update
    upgrade upload use validate verify view visualise visualize walk warn watch wire work wrap write zip
    nimm mach füge lösche zeig starte schreib prüfe öffne ändere erkläre entferne benutze lass teste
    añade haz borra muestra ejecuta escribe abre cambia explica quita arregla usa pon crea revisa
    ajoute fais supprime montre lance écris ouvre change explique enlève corrige utilise mets crée vérifie
    double-check re-run""".split()
)

# What people say before they say something.
LEADS = frozenset(
    """ah alright also and anyway aw btw but cool er erm fine god good great haha hello hey hi hm hmm hmmm k kk
    lol man mm mmm nice now oh ok okay okey perfect please pls plz right so sorry sure thanks then though thx
    uh uhm um umm well yeah yep yes yup yo guys just basically anyways honestly und also aber ja
    bitte por favor pues bon alors donc""".split()
)

# Verbs that make a fact of a clause when they are finite: `X is`, `X has`, `X runs`.
FINITE = r"""
    (?:is|are|isn~t|aren~t|has|have|does|do|doesn~t|don~t|will|won~t|gets?|goes|must|can~t|cannot|can|never|always|only)\b
    (?:it|that|there|here|he|she|what|who)~s\b|[a-z]+'s\b|(?:we|they|you)~?re\b|its\b|thats\b|i~?m\b
    (?:live|run|use|sit|stand|come|own|belong|contain|target|support|require|need|talk|listen|write|read|store|hold|keep|cost|take|start|begin|end|work|speak|answer|review|handle|manage|maintain|host|deploy|build|depend|connect|send|strip|count|mean|refer|expect|treat|raise|return|carry|become|stay|remain|move|change|win|lose|go|make|show|give|follow|break|want|pay|provide|share|trust|watch|close|open|ship|break|drop|belong|sleep|write|wrap|render|serve|poll|push|pull|sync|fit|stick|agree|happen|teach|throw|allow|exist|include|cover|land|name|group|track|test|log|cache|sell|hate|load|call|fail|expire|charge|report|prefer|study|think|fix|touch)(?:s|es)?\b
    (?:ist|sind|hat|haben|wird|läuft|kriegt|bekommt|sitzt|liegt|kommt|nutzt|muss|es|son|está|están|tiene|tienen|usa|corre|hace|est|sont|ont|tourne|utilise|reste|passe)\b
"""
