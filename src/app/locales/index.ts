/**
 * All texts of the page in the chosen language. `en/` and `zh/` have a file for each part of the
 * app; the compiler checks that no text is missing. ./format.ts formats numbers and units.
 */
import { signal, type ReadonlySignal } from '@preact/signals';
import { localStorageValue } from '../browser/localStorageValue.ts';
import { en, type UiMessages } from './en/index.ts';

/** The name of each language in that language. */
export const UI_LANGUAGES = { en: 'English', zh: '中文' } as const;
type Language = keyof typeof UI_LANGUAGES;

const stored = localStorageValue('peergrad.language');
const current = signal<UiMessages>(en);
const chosen = signal<Language>('en');

export const uiMessages: ReadonlySignal<UiMessages> = current;
export const uiLanguage: ReadonlySignal<Language> = chosen;

export function isUiLanguage(text: string | null): text is Language {
  return text !== null && Object.hasOwn(UI_LANGUAGES, text);
}

/**
 * Loads the language of the page. The language in the address comes first, then the stored one,
 * then the first language of the browser that the page supports.
 */
export function loadUiLanguage(asked: string | null): Promise<void> {
  const wishes = [asked, stored.get(), ...navigator.languages.map((tag) => tag.split('-')[0]!)];
  return load(wishes.find(isUiLanguage) ?? 'en');
}

/** Changes the language and stores the choice. */
export function chooseUiLanguage(next: Language): Promise<void> {
  stored.set(next);
  return load(next);
}

async function load(next: Language): Promise<void> {
  // English is part of the page. Other languages are loaded once, when they are needed.
  current.value = next === 'zh' ? (await import('./zh/index.ts')).zh : en;
  chosen.value = next;
  document.documentElement.lang = next === 'zh' ? 'zh-Hans' : next;
}
