// A box for a conversation with a language model, and the last requests to all of them.

const chat = {messages: [], stop: null, sent: 0, first: 0};

/** The models of the status that take chats, with what their service holds. */
function chatModels(status) {
  return Object.entries(status.models).flatMap(([name, {versions}]) => Object.values(versions).filter((each) => each.text?.chats && each.serving).slice(0, 1).map(({text}) => ({name, ...text})));
}

function showChat(status) {
  const models = chatModels(status);
  byId("chat").hidden = models.length === 0;
  showList(byId("chat-model"), models, (model) => model.name, (model) => make("option", {value: model.name}, visible(model.name)), () => {});
  const model = models.find(({name}) => name === byId("chat-model").value);
  const held = model?.pages > 0 ? `, ${whole(model.pages_used)} of ${whole(model.pages)} pages used` : "";
  setText(byId("chat-held"), model ? `${whole(model.running)} running, ${whole(model.waiting)} waiting${held}` : "");
  byId("texts").hidden = status.texts.length === 0;
  showList(byId("texts-list"), status.texts, (each) => each.id, () => make("li", {}, make("time"), " ", make("b"), " ", make("span")), (item, each) => {
    const [time, name, text] = item.children;
    showTime(time, each.time);
    setText(name, visible(each.model));
    const decode = each.total_ms - each.first_token_ms;
    const rate = each.answer_tokens > 1 && decode > 0 ? `, ${digits((each.answer_tokens - 1) / decode * 1000)} tokens/s` : "";
    setText(text, `${whole(each.prompt_tokens)} tokens in, ${whole(each.cached_tokens)} cached, ${whole(each.answer_tokens)} out; first token ${duration(each.first_token_ms * 1000)}${rate}; ${each.end}`);
  });
}

/** Calls `take` with the JSON of each event of a stream, up to its end. */
async function readEvents(body, take) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ;) {
    const {value, done} = await reader.read();
    if (done) {
      return;
    }
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    events.map((event) => event.slice("data: ".length)).filter((data) => data !== "[DONE]").forEach((data) => take(JSON.parse(data)));
  }
}

function showCounts(usage) {
  const now = performance.now(), answered = usage?.completion_tokens ?? 0;
  const parts = [`first token ${duration((chat.first - chat.sent) * 1000)}`];
  if (answered > 1) {
    parts.push(`${digits((answered - 1) / (now - chat.first) * 1000)} tokens/s`);
  }
  if (usage) {
    parts.push(`${whole(usage.prompt_tokens)} tokens in, ${whole(usage.prompt_tokens_details.cached_tokens)} of them from the cache, ${whole(answered)} out`);
  }
  setText(byId("chat-counts"), parts.join(" · "));
}

function addMessage(role, content) {
  const text = make("span", {}, content);
  byId("chat-log").append(make("li", {class: role}, make("b", {}, role === "user" ? "You" : "Model"), " ", text));
  return text;
}

async function sendChat(content) {
  const token = sessionStorage.getItem(kTokenKey);
  addMessage("user", content);
  chat.messages.push({role: "user", content});
  const answer = {role: "assistant", content: ""}, shown = addMessage("assistant", "");
  chat.stop = new AbortController();
  chat.sent = performance.now();
  chat.first = 0;
  const reply = await fetch("v1/chat/completions", {
    method: "POST", cache: "no-store", redirect: "error", signal: chat.stop.signal, headers: token ? {Authorization: `Bearer ${token}`} : {},
    body: JSON.stringify({model: byId("chat-model").value, messages: chat.messages, stream: true, stream_options: {include_usage: true}, temperature: Number(byId("chat-temperature").value)}),
  });
  if (!reply.ok) {
    throw new ServerError(reply.status, (await reply.json()).error.message);
  }
  await readEvents(reply.body, (event) => {
    if (event.error) {
      throw new ServerError(0, event.error.message);
    }
    const piece = event.choices[0]?.delta.content ?? "";
    chat.first ||= piece ? performance.now() : 0;
    answer.content += piece;
    setText(shown, answer.content);
    byId("chat-log").scrollTop = byId("chat-log").scrollHeight;
    if (event.usage) {
      showCounts(event.usage);
    }
  });
  chat.messages.push(answer);
}

async function submitChat() {
  const content = byId("chat-text").value.trim();
  if (content === "" || chat.stop) {
    return;
  }
  byId("chat-text").value = "";
  setText(byId("chat-problem"), "");
  byId("chat-stop").disabled = false;
  const before = chat.messages.length;
  try {
    await sendChat(content);
    say("The model has answered");
  } catch (error) {
    chat.messages.length = before; // what has no answer is not said again
    setText(byId("chat-problem"), error.name === "AbortError" ? "Stopped" : visible(error.message));
  }
  byId("chat-stop").disabled = true;
  chat.stop = null;
}

byId("chat-form").onsubmit = (event) => {
  event.preventDefault();
  submitChat();
};
byId("chat-text").onkeydown = (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    submitChat();
  }
};
byId("chat-stop").onclick = () => chat.stop?.abort();
byId("chat-clear").onclick = () => {
  chat.stop?.abort();
  chat.messages = [];
  byId("chat-log").replaceChildren();
  setText(byId("chat-counts"), "");
};
