/**
 * Every word on the screen, in the language chosen: `en/` and `zh/` have a file for each part of
 * the app, and the compiler holds that a language lacks nothing. Numbers and units are
 * ../format.ts's.
 */
import { signal, type ReadonlySignal } from '@preact/signals';
import { remembered } from '../browser/remembered.ts';
import { en, type Messages } from './en/index.ts';

/** In the words of those who speak it. */
export const LANGUAGES = { en: 'English', zh: '中文' } as const;
type Language = keyof typeof LANGUAGES;

const stored = remembered('peergrad.language');
const current = signal<Messages>(en);
const chosen = signal<Language>('en');

export const messages: ReadonlySignal<Messages> = current;
export const language: ReadonlySignal<Language> = chosen;

export function isLanguage(text: string | null): text is Language {
  return text !== null && Object.hasOwn(LANGUAGES, text);
}

/**
 * `asked` in the address, else what was chosen here before, else the first of the browser's that
 * there is.
 */
export function startLanguage(asked: string | null): Promise<void> {
  const wishes = [asked, stored.get(), ...navigator.languages.map((tag) => tag.split('-')[0]!)];
  return load(wishes.find(isLanguage) ?? 'en');
}

/** Changes the language, and keeps it for the next time. */
export function chooseLanguage(next: Language): Promise<void> {
  stored.set(next);
  return load(next);
}

async function load(next: Language): Promise<void> {
  // English is here at once; who reads something else waits for it once.
  current.value = next === 'zh' ? (await import('./zh/index.ts')).zh : en;
  chosen.value = next;
  document.documentElement.lang = next === 'zh' ? 'zh-Hans' : next;
}
