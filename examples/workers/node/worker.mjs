#!/usr/bin/env node
// A Fairlead worker. Copy it, write your own handle(), run it as: worker.mjs [CAPSULE]
import { once } from 'node:events';
import http from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';

const socketPath = (process.env.FAIRLEAD_SOCKET ?? '/run/fairlead/agent.sock').replace(/^unix:\/\//, '');
const capsule = process.argv[2] ?? 'default';
const max = 8, wait = 30, lease = Number(process.env.WORKER_LEASE ?? 60); // messages a pull, seconds, seconds

// ---- Your work: return when it is done, throw to have it tried again later. ----
async function handle(message, payload) {
  console.log(`${message.queue} p${message.priority} ${message.key || '-'}: ${payload}`);
}
// --------------------------------------------------------------------------------

const agent = new http.Agent({ keepAlive: true });

// call resolves when the answer begins; its body is still to be read.
async function call(method, path, body = [], signal = undefined) {
  const request = http.request({ socketPath, agent, method, path, signal });
  request.end(body.length ? JSON.stringify(body) : undefined);
  const [answer] = await once(request, 'response');
  request.on('error', () => {}); // from here on the answer's reader is told
  if (answer.statusCode >= 300) throw new Error(`${answer.statusCode} ${await text(answer)}`);
  return answer;
}

const text = async (answer) => Buffer.concat(await answer.toArray()).toString().trim();

async function work(message) {
  const { token, data, data_base64: binary } = message;
  try {
    await handle(message, binary === undefined ? Buffer.from(data) : Buffer.from(binary, 'base64'));
    return { token, result: 'ack' };
  } catch (problem) { // no delay given: the queue's backoff says when it comes again
    return { token, result: 'nack', reason: String(problem).slice(0, 200) };
  }
}

async function extend(messages) { // beside the work: a job that outlasts its lease is still ours
  const body = messages.map(({ token }) => ({ token, result: 'extend' }));
  await call('POST', '/v1/settle', body).then(text).catch((problem) => console.error('extend:', problem.message));
}

const stop = new AbortController(); // a handler that runs is finished first; a pull that only waits is given up
for (const name of ['SIGTERM', 'SIGINT']) process.on(name, () => stop.abort());

let settled = [], pause = 100;
while (!stop.signal.aborted) {
  try {
    const events = await call('GET', '/v1/session');
    const [first] = await once(events, 'data');
    const { session } = JSON.parse(first.toString().split('\n')[0]); // when it ends, our messages go to others
    events.on('error', () => {}).resume();
    const path = `/v1/capsules/${capsule}/pull?max=${max}&wait=${wait}s&lease=${lease}s&session=${session}`;
    while (!stop.signal.aborted) {
      const answer = await text(await call('POST', path, settled, stop.signal));
      const messages = answer.split('\n').filter(Boolean).map((line) => JSON.parse(line));
      const failed = messages[0]?.settle_failed ? messages.shift().settle_failed : [];
      const again = failed.filter(({ status }) => status === 'unavailable').map(({ token }) => token);
      if (failed.length > again.length) console.error('not settled:', failed);
      [settled, pause] = [settled.filter(({ token }) => again.includes(token)), 100]; // not known to be done: said again
      const beat = setInterval(extend, lease * 1000 / 3, messages);
      for (const message of messages) settled.push(await work(message));
      clearInterval(beat);
    }
  } catch (problem) { // the agent restarts and gives the work out again
    if (stop.signal.aborted) break;
    console.error('agent:', problem.message);
    await sleep(pause);
    pause = Math.min(pause * 2, 5000);
  }
}
if (settled.length) await call('POST', '/v1/settle', settled).then(text);
process.exit(0);
