// Sends requests to the server that this page came from.

const kToken = 'millrace-token';

export const token = {
  get: () => sessionStorage.getItem(kToken) ?? '',
  set: (value) => value ? sessionStorage.setItem(kToken, value) : sessionStorage.removeItem(kToken),
};

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Whether the error shows that the request needs a token, and not for example another listener. */
export const wantsToken = ({status, message}) => (status === 401 || status === 403) && /\btoken\b/.test(message);

/** Sends a request and returns the JSON of the answer. Throws Refused, or another error if no answer arrives within `wait` ms. */
export async function ask(method, target, body, headers = {}, wait = 30000) {
  if (token.get()) headers = {...headers, Authorization: `Bearer ${token.get()}`};
  const answer = await fetch(target, {method, body, headers, cache: 'no-store', signal: AbortSignal.timeout(wait)});
  const text = await answer.text();
  let document = null;
  try {
    document = text ? JSON.parse(text) : {};
  } catch {
    if (answer.ok) throw new Refused(answer.status, 'the answer is not JSON');
  }
  if (!answer.ok) throw new Refused(answer.status, document?.error ?? `status ${answer.status}`);
  return document;
}

export const get = (target) => ask('GET', target);
export const post = (target, body, headers, wait) => ask('POST', target, body, headers, wait);
export const part = encodeURIComponent;
