/**
 * All texts of the page in the chosen language. `en/` and `zh/` have a file for each part of the
 * app; the compiler checks that no text is missing. ./format.ts formats numbers and units.
 */
import { signal, type ReadonlySignal } from '@preact/signals';
import { remembered } from '../browser/remembered.ts';
import { en, type Messages } from './en/index.ts';

/** Languages by their own names. */
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
 * Loads the language of the address, else the stored one, else the first supported one of the
 * browser.
 */
export function startLanguage(asked: string | null): Promise<void> {
  const wishes = [asked, stored.get(), ...navigator.languages.map((tag) => tag.split('-')[0]!)];
  return load(wishes.find(isLanguage) ?? 'en');
}

/** Changes the language and stores the choice. */
export function chooseLanguage(next: Language): Promise<void> {
  stored.set(next);
  return load(next);
}

async function load(next: Language): Promise<void> {
  // English is part of the page; other languages are loaded once.
  current.value = next === 'zh' ? (await import('./zh/index.ts')).zh : en;
  chosen.value = next;
  document.documentElement.lang = next === 'zh' ? 'zh-Hans' : next;
}
