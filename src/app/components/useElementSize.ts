/** Returns the size of an element in CSS pixels, and follows its changes. */
import { useLayoutEffect, useState } from 'preact/hooks';

interface Size {
  width: number;
  height: number;
}

export function useElementSize(ref: { readonly current: Element | null }): Size {
  const [size, setSize] = useState<Size>({ width: 0, height: 0 });
  useLayoutEffect(() => {
    const element = ref.current;
    if (element === null) return undefined;
    const measure = (width: number, height: number): void =>
      setSize((old) => (old.width === width && old.height === height ? old : { width, height }));
    const box = element.getBoundingClientRect();
    measure(Math.round(box.width), Math.round(box.height));
    const observer = new ResizeObserver(([entry]) => {
      if (entry !== undefined) measure(Math.round(entry.contentRect.width), Math.round(entry.contentRect.height));
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, [ref]);
  return size;
}
