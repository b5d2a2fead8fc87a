use std::collections::BTreeSet;

use pennon_core::Result;

use super::search::FoundNode;
use super::*;
use crate::vector::query::narrowed;
use crate::vector::random::Random;

fn points(count: usize, dimension: usize, seed: u64) -> Vec<Vec<f32>> {
    let mut random = Random::new(seed);
    (0..count).map(|_| (0..dimension).map(|_| narrowed(random.unit())).collect()).collect()
}

fn distance(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

fn built(points: &[Vec<f32>], options: GraphOptions, threads: usize) -> Graph {
    let count = u32::try_from(points.len()).unwrap();
    build(count, options, threads, |a, b| distance(&points[a as usize], &points[b as usize]))
}

const SMALL: GraphOptions = GraphOptions { m: 8, ef_construction: 50, max_level: 4 };

#[test]
fn graphs_are_well_formed_for_any_threads() {
    let points = points(1500, 6, 1);
    for threads in [1, 3] {
        let graph = built(&points, SMALL, threads);
        assert_eq!(graph.len(), 1500);
        assert!((2..=4).contains(&graph.levels.len()));
        assert!(graph.memory_bytes() > 1500 * 4);
        for (number, level) in graph.levels.iter().enumerate() {
            let nodes = level.nodes.clone().unwrap_or_else(|| (0..1500).collect());
            assert_eq!(nodes.len(), level.len());
            let most = if number == 0 { 16 } else { 8 };
            for node in nodes {
                let neighbors = level.neighbors(node);
                assert!(neighbors.len() <= most && !neighbors.contains(&node));
                assert_eq!(neighbors.iter().collect::<BTreeSet<_>>().len(), neighbors.len());
                assert!(
                    neighbors
                        .iter()
                        .all(|other| number == 0 || level.nodes.as_ref().unwrap().contains(other))
                );
                assert!(!neighbors.is_empty() || level.len() == 1);
            }
        }
        let top = graph.levels.last().unwrap();
        assert!(top.nodes.as_ref().unwrap().contains(&graph.entry));
    }
    assert_eq!(built(&points, SMALL, 1), built(&points, SMALL, 1));
}

/// The share of the nearest nodes that are found, of nodes that pass.
fn recall(
    points: &[Vec<f32>],
    graph: &Graph,
    queries: &[Vec<f32>],
    ef: usize,
    passes: fn(u32) -> bool,
) -> f64 {
    let mut hits = 0;
    for query in queries {
        let of = |node: u32| -> Result<f32> { Ok(distance(&points[node as usize], query)) };
        let found = search(graph, ef, &of, &|found| passes(found.node)).unwrap();
        assert!(found.is_sorted() && found.iter().all(|found| passes(found.node)));
        let mut all: Vec<FoundNode> = (0..u32::try_from(points.len()).unwrap())
            .filter(|node| passes(*node))
            .map(|node| FoundNode { distance: of(node).unwrap(), node })
            .collect();
        all.sort_unstable();
        hits += found.iter().take(10).filter(|found| all[..10].contains(found)).count();
    }
    hits as f64 / (10 * queries.len()) as f64
}

#[test]
fn most_of_the_nearest_are_found() {
    let points = points(3000, 8, 2);
    let queries = self::points(40, 8, 3);
    for threads in [1, 2] {
        let graph = built(&points, GraphOptions { m: 12, ef_construction: 80, max_level: 5 }, threads);
        let broad = recall(&points, &graph, &queries, 100, |_| true);
        let narrow = recall(&points, &graph, &queries, 10, |_| true);
        assert!(broad >= 0.97 && narrow >= 0.7 && narrow <= broad, "{narrow} {broad}");
        let masked = recall(&points, &graph, &queries, 100, |node| node % 3 == 0);
        assert!(masked >= 0.95, "{masked}");
    }
}

#[test]
fn equal_points_and_few_points() {
    let same = vec![vec![1.0_f32; 4]; 300];
    let graph = built(&same, SMALL, 2);
    let found = search(&graph, 20, &|_| Ok(0.0), &|_| true).unwrap();
    assert_eq!(found.len(), 20);
    for count in [1, 2, 3] {
        let points = points(count, 4, 5);
        let graph = built(&points, SMALL, 2);
        let found =
            search(&graph, 5, &|node| Ok(distance(&points[node as usize], &points[0])), &|_| true).unwrap();
        assert_eq!((found.len(), found[0].node), (count, 0));
    }
}
